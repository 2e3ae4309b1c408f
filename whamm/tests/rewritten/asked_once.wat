  (func $add (;1;) (type $bin) (param i32 i32) (result i32)
    local.get 0
    local.get 1
    i32.add
    i32.const 1000
    global.set 3
  )
  (func $sub (;2;) (type $bin) (param i32 i32) (result i32)
    local.get 0
    local.get 1
    i32.sub
    i32.const 2000
    global.set 4
  )
  (func $switch (;3;) (type 2) (param $n i32) (result i32)
    block ;; label = @1
      block ;; label = @2
        block ;; label = @3
          block ;; label = @4
            local.get $n
            br_table 0 (;@4;) 1 (;@3;) 2 (;@2;) 3 (;@1;)
          end
          global.get 1
          global.set 1
          global.get 2
          i32.const 0
          call $check
          i32.add
          global.set 2
          i32.const 10
          return
        end
        global.get 1
        global.set 1
        global.get 2
        i32.const 0
        call $check
        i32.add
        global.set 2
        i32.const 20
        return
      end
      global.get 1
      global.set 1
      global.get 2
      i32.const 0
      call $check
      i32.add
      global.set 2
      i32.const 30
      return
    end
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 40
    i32.const 7004
    global.set 5
  )
  (func $out (;4;) (type 2) (param $n i32) (result i32)
    block (result i32) ;; label = @1
      global.get 1
      global.set 1
      global.get 2
      i32.const 0
      call $check
      i32.add
      global.set 2
      i32.const 5
      local.get $n
      i32.eqz
      br_if 0 (;@1;)
      drop
      global.get 1
      global.set 1
      global.get 2
      i32.const 0
      call $check
      i32.add
      global.set 2
      i32.const 6
    end
    i32.const 8006
    global.set 6
  )
  (func $tail (;5;) (type 2) (param $n i32) (result i32)
    (local i32)
    local.get $n
    i32.eqz
    if ;; label = @1
      global.get 1
      global.set 1
      global.get 2
      i32.const 0
      i32.const 4
      i32.shr_u
      i32.const 3
      i32.and
      i32.const 2
      i32.shl
      local.set 1
      local.get 1
      i32.load 2
      i32.const 0
      i32.const 6
      i32.shr_u
      i32.const 1
      i32.add
      i32.eq
      if (result i32) ;; label = @2
        i32.const 1
      else
        local.get 1
        i32.const 0
        i32.const 6
        i32.shr_u
        i32.const 1
        i32.add
        i32.store 2
        i32.const 0
      end
      i32.add
      global.set 2
      i32.const 0
      return
    end
    local.get $n
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    i32.const 4
    i32.shr_u
    i32.const 3
    i32.and
    i32.const 2
    i32.shl
    local.set 1
    local.get 1
    i32.load 2
    i32.const 0
    i32.const 6
    i32.shr_u
    i32.const 1
    i32.add
    i32.eq
    if (result i32) ;; label = @1
      i32.const 1
    else
      local.get 1
      i32.const 0
      i32.const 6
      i32.shr_u
      i32.const 1
      i32.add
      i32.store 2
      i32.const 0
    end
    i32.add
    global.set 2
    i32.const 1
    i32.sub
    return_call $tail
  )
  (func $multi (;6;) (type 3) (param i32) (result i32 i64)
    local.get 0
    global.get $g
    i32.const 11008
    global.set 8
  )
  (func (;7;) (type 4)
    (local $i i32) (local $f f64) (local i32)
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 9
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 4
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 1
    call_indirect (type $bin)
    call $log
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 9
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 4
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 2
    call_indirect (type $bin)
    call $log
    loop ;; label = @1
      local.get $i
      call $switch
      call $log
      local.get $i
      global.get 1
      global.set 1
      global.get 2
      i32.const 0
      i32.const 4
      i32.shr_u
      i32.const 3
      i32.and
      i32.const 2
      i32.shl
      local.set 2
      local.get 2
      i32.load 2
      i32.const 0
      i32.const 6
      i32.shr_u
      i32.const 1
      i32.add
      i32.eq
      if (result i32) ;; label = @2
        i32.const 1
      else
        local.get 2
        i32.const 0
        i32.const 6
        i32.shr_u
        i32.const 1
        i32.add
        i32.store 2
        i32.const 0
      end
      i32.add
      global.set 2
      i32.const 1
      i32.add
      global.get 1
      global.set 1
      global.get 2
      i32.const 0
      i32.const 4
      i32.shr_u
      i32.const 3
      i32.and
      i32.const 2
      i32.shl
      local.set 2
      local.get 2
      i32.load 2
      i32.const 0
      i32.const 6
      i32.shr_u
      i32.const 1
      i32.add
      i32.eq
      if (result i32) ;; label = @2
        i32.const 1
      else
        local.get 2
        i32.const 0
        i32.const 6
        i32.shr_u
        i32.const 1
        i32.add
        i32.store 2
        i32.const 0
      end
      i32.add
      global.set 2
      local.set $i
      local.get $i
      global.get 1
      global.set 1
      global.get 2
      i32.const 0
      i32.const 4
      i32.shr_u
      i32.const 3
      i32.and
      i32.const 2
      i32.shl
      local.set 2
      local.get 2
      i32.load 2
      i32.const 0
      i32.const 6
      i32.shr_u
      i32.const 1
      i32.add
      i32.eq
      if (result i32) ;; label = @2
        i32.const 1
      else
        local.get 2
        i32.const 0
        i32.const 6
        i32.shr_u
        i32.const 1
        i32.add
        i32.store 2
        i32.const 0
      end
      i32.add
      global.set 2
      i32.const 5
      i32.lt_u
      br_if 0 (;@1;)
    end
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 0
    call $out
    call $log
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 1
    call $out
    call $log
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 3
    call $tail
    call $log
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 77
    call $multi
    global.set $g
    call $log
    f64.const 0x1p+0 (;=1;)
    f64.const 0x1.8p+1 (;=3;)
    f64.div
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    local.set $f
    local.get $f
    f64.const 0x1.ep+4 (;=30;)
    f64.mul
    i32.trunc_f64_s
    call $log
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 7
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 2
    i32.div_s
    call $log
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 1
    memory.grow
    call $log
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 64
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 1
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 4
    memory.fill
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 5
    i32.load8_u offset=60
    call $log
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 80
    i64.const 123456789
    i64.store32
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 80
    i32.load
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 1
    global.get 1
    global.set 1
    global.get 2
    i32.const 0
    call $check
    i32.add
    global.set 2
    i32.const 1
    select
    call $log
    i32.const 13033
    global.set 9
  )
  (func $check (;10;) (type 6) (param i32) (result i32)
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
  (func $"#func13 whamm.flush" (@name "whamm.flush") (;13;) (type 5)
    (local i32)
    global.get 10
    local.set 0
    i32.const 0
    global.set 10
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
