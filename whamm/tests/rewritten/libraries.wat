  (func $add (;1;) (type $bin) (param i32 i32) (result i32)
    local.get 0
    local.get 1
    i32.add
  )
  (func $sub (;2;) (type $bin) (param i32 i32) (result i32)
    local.get 0
    local.get 1
    i32.sub
  )
  (func $switch (;3;) (type 2) (param $n i32) (result i32)
    block ;; label = @1
      block ;; label = @2
        block ;; label = @3
          block ;; label = @4
            local.get $n
            br_table 0 (;@4;) 1 (;@3;) 2 (;@2;) 3 (;@1;)
          end
          i32.const 10
          return
        end
        i32.const 20
        return
      end
      i32.const 30
      return
    end
    i32.const 40
  )
  (func $out (;4;) (type 2) (param $n i32) (result i32)
    block (result i32) ;; label = @1
      i32.const 5
      local.get $n
      i32.eqz
      br_if 0 (;@1;)
      drop
      i32.const 6
    end
  )
  (func $tail (;5;) (type 2) (param $n i32) (result i32)
    local.get $n
    i32.eqz
    if ;; label = @1
      i32.const 0
      return
    end
    local.get $n
    i32.const 1
    i32.sub
    return_call $tail
  )
  (func $multi (;6;) (type 3) (param i32) (result i32 i64)
    local.get 0
    global.get $g
  )
  (func (;7;) (type 4)
    (local $i i32) (local $f f64) (local i32 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32)
    i32.const 9
    i32.const 4
    i32.const 1
    call_indirect (type $bin)
    call $log
    i32.const 9
    i32.const 4
    i32.const 2
    call_indirect (type $bin)
    call $log
    loop ;; label = @1
      local.get $i
      call $switch
      call $log
      local.get $i
      i32.const 1
      i32.add
      local.set $i
      local.get $i
      i32.const 5
      i32.lt_u
      br_if 0 (;@1;)
    end
    i32.const 0
    call $out
    call $log
    i32.const 1
    call $out
    call $log
    i32.const 3
    call $tail
    call $log
    i32.const 77
    call $multi
    global.set $g
    call $log
    f64.const 0x1p+0 (;=1;)
    f64.const 0x1.8p+1 (;=3;)
    f64.div
    local.set $f
    local.get $f
    f64.const 0x1.ep+4 (;=30;)
    f64.mul
    i32.trunc_f64_s
    call $log
    i32.const 7
    i32.const 2
    i32.div_s
    call $log
    i32.const 1
    memory.grow
    call $log
    i32.const 64
    i32.const 1
    i32.const 4
    memory.fill
    i32.const 5
    local.tee 2
    local.get 2
    i32.const 60
    i32.add
    call $check
    i32.const 0
    i32.eq
    if ;; label = @1
      global.get 1
      i32.const 1
      i32.add
      global.set 1
    end
    i32.const 49
    global.set 8
    i32.const 100
    local.set 5
    i32.const 8
    local.tee 6
    call $whamm.alloc
    local.tee 7
    local.get 5
    local.get 6
    memory.copy 1 2
    local.get 7
    local.get 6
    global.set 4
    global.set 3
    i32.const 0
    i32.const 0
    local.set 4
    local.set 3
    i32.const 40
    local.set 7
    i32.const 5
    local.tee 6
    call $whamm.alloc
    local.tee 5
    local.get 7
    local.get 6
    memory.copy 1 0
    local.get 5
    local.get 6
    local.set 4
    local.set 3
    local.get 3
    local.get 4
    i32.const 5681
    i32.const 5
    call $whamm.str_eq
    if (result i32) ;; label = @1
      local.get 3
      local.get 4
      i32.const 5686
      i32.const 2
      call $whamm.str_ends
    else
      i32.const 0
    end
    if ;; label = @1
      call $sum
      global.set 2
    end
    global.get 5
    global.set 6
    i32.const 200
    i32.const 8
    i32.const 5
    memory.copy 2 0
    i32.const 205
    i32.const 5688
    i32.const 1
    memory.copy 2 1
    i32.const 200
    local.set 5
    i32.const 6
    local.tee 6
    call $whamm.alloc
    local.tee 7
    local.get 5
    local.get 6
    memory.copy 1 2
    local.get 7
    local.get 6
    i32.const 5689
    i32.const 6
    call $whamm.str_eq
    if ;; label = @1
      global.get 2
      i32.const 1000
      i32.add
      global.set 2
    end
    i32.load8_u offset=60
    call $log
    i32.const 80
    i64.const 123456789
    local.set 8
    local.tee 2
    local.get 8
    local.get 2
    call $check
    i32.const 0
    i32.eq
    if ;; label = @1
      global.get 1
      i32.const 1
      i32.add
      global.set 1
    end
    i32.const 49
    global.set 12
    i32.const 100
    local.set 7
    i32.const 8
    local.tee 6
    call $whamm.alloc
    local.tee 5
    local.get 7
    local.get 6
    memory.copy 1 2
    local.get 5
    local.get 6
    global.set 4
    global.set 3
    i32.const 0
    i32.const 0
    local.set 10
    local.set 9
    i32.const 40
    local.set 5
    i32.const 5
    local.tee 6
    call $whamm.alloc
    local.tee 7
    local.get 5
    local.get 6
    memory.copy 1 0
    local.get 7
    local.get 6
    local.set 10
    local.set 9
    local.get 9
    local.get 10
    i32.const 5681
    i32.const 5
    call $whamm.str_eq
    if (result i32) ;; label = @1
      local.get 9
      local.get 10
      i32.const 5686
      i32.const 2
      call $whamm.str_ends
    else
      i32.const 0
    end
    if ;; label = @1
      call $sum
      global.set 2
    end
    global.get 5
    global.set 6
    i32.const 200
    i32.const 8
    i32.const 5
    memory.copy 2 0
    i32.const 205
    i32.const 5688
    i32.const 1
    memory.copy 2 1
    i32.const 200
    local.set 7
    i32.const 6
    local.tee 6
    call $whamm.alloc
    local.tee 5
    local.get 7
    local.get 6
    memory.copy 1 2
    local.get 5
    local.get 6
    i32.const 5689
    i32.const 6
    call $whamm.str_eq
    if ;; label = @1
      global.get 2
      i32.const 1000
      i32.add
      global.set 2
    end
    i64.store32
    i32.const 80
    local.tee 2
    local.get 2
    call $check
    i32.const 0
    i32.eq
    if ;; label = @1
      global.get 1
      i32.const 1
      i32.add
      global.set 1
    end
    i32.const 49
    global.set 14
    i32.const 100
    local.set 5
    i32.const 8
    local.tee 6
    call $whamm.alloc
    local.tee 7
    local.get 5
    local.get 6
    memory.copy 1 2
    local.get 7
    local.get 6
    global.set 4
    global.set 3
    i32.const 0
    i32.const 0
    local.set 12
    local.set 11
    i32.const 40
    local.set 7
    i32.const 5
    local.tee 6
    call $whamm.alloc
    local.tee 5
    local.get 7
    local.get 6
    memory.copy 1 0
    local.get 5
    local.get 6
    local.set 12
    local.set 11
    local.get 11
    local.get 12
    i32.const 5681
    i32.const 5
    call $whamm.str_eq
    if (result i32) ;; label = @1
      local.get 11
      local.get 12
      i32.const 5686
      i32.const 2
      call $whamm.str_ends
    else
      i32.const 0
    end
    if ;; label = @1
      call $sum
      global.set 2
    end
    global.get 5
    global.set 6
    i32.const 200
    i32.const 8
    i32.const 5
    memory.copy 2 0
    i32.const 205
    i32.const 5688
    i32.const 1
    memory.copy 2 1
    i32.const 200
    local.set 5
    i32.const 6
    local.tee 6
    call $whamm.alloc
    local.tee 7
    local.get 5
    local.get 6
    memory.copy 1 2
    local.get 7
    local.get 6
    i32.const 5689
    i32.const 6
    call $whamm.str_eq
    if ;; label = @1
      global.get 2
      i32.const 1000
      i32.add
      global.set 2
    end
    i32.load
    i32.const 1
    i32.const 1
    select
    call $log
  )
  (func $check (;10;) (type 7) (param i32) (result i32)
    (local i32)
    local.get 0
    i32.const 4
    i32.shr_u
    i32.const 3
    i32.and
    i32.const 2
    i32.shl
    local.set 1
    local.get 1
    i32.load 2
    local.get 0
    i32.const 6
    i32.shr_u
    i32.const 1
    i32.add
    i32.eq
    if (result i32) ;; label = @1
      i32.const 1
    else
      local.get 1
      local.get 0
      i32.const 6
      i32.shr_u
      i32.const 1
      i32.add
      i32.store 2
      i32.const 0
    end
  )
  (func $sum (;15;) (type 9) (result i32)
    global.get 10
  )
  (func $"#func18 whamm.flush" (@name "whamm.flush") (;18;) (type 5)
    (local i32)
    global.get 15
    local.set 0
    i32.const 0
    global.set 15
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
  (func $square (;46;) (type 7) (param i32) (result i32)
    local.get 0
    local.get 0
    i32.mul
  )
  (func $seen (;47;) (type 12) (param i32)
    global.get 10
    local.get 0
    i32.add
    global.set 10
  )
