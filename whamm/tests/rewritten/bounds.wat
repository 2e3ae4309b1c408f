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
    (local i32)
    block (result i32) ;; label = @1
      i32.const 5
      local.get $n
      i32.eqz
      br_if 0 (;@1;)
      local.tee 1
      local.get 1
      i32.const 1
      i32.add
      global.set 1
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
    (local $i i32) (local $f f64) (local i32 i64)
    i32.const 9
    i32.const 4
    i32.const 1
    call_indirect (type $bin)
    local.tee 2
    local.get 2
    global.set 2
    call $log
    i32.const 9
    i32.const 4
    i32.const 2
    call_indirect (type $bin)
    local.tee 2
    local.get 2
    global.set 3
    call $log
    loop ;; label = @1
      local.get $i
      local.tee 2
      local.get 2
      global.set 4
      call $switch
      local.tee 2
      local.get 2
      global.set 5
      call $log
      local.get $i
      i32.const 1
      i32.add
      local.get $i
      i32.const 1
      i32.gt_s
      if ;; label = @2
        local.get $i
        global.set 6
      end
      local.set $i
      local.get $i
      i32.const 5
      i32.lt_u
      br_if 0 (;@1;)
    end
    i32.const 0
    local.tee 2
    local.get 2
    global.set 7
    call $out
    local.tee 2
    local.get 2
    global.set 8
    call $log
    i32.const 1
    local.tee 2
    local.get 2
    global.set 9
    call $out
    local.tee 2
    local.get 2
    global.set 10
    call $log
    i32.const 3
    local.tee 2
    local.get 2
    global.set 11
    call $tail
    local.tee 2
    local.get 2
    global.set 12
    call $log
    i32.const 77
    local.tee 2
    local.get 2
    global.set 13
    call $multi
    local.tee 3
    local.get 3
    global.set 14
    global.set $g
    local.tee 2
    local.get 2
    global.set 15
    call $log
    f64.const 0x1p+0 (;=1;)
    global.set 16
    f64.const 0x1p+0 (;=1;)
    f64.const 0x1.8p+1 (;=3;)
    global.set 17
    f64.const 0x1.8p+1 (;=3;)
    f64.div
    local.get $i
    i32.const 1
    i32.gt_s
    if ;; label = @1
      local.get $i
      global.set 18
    end
    local.set $f
    local.get $f
    f64.const 0x1.ep+4 (;=30;)
    global.set 19
    f64.const 0x1.ep+4 (;=30;)
    f64.mul
    i32.trunc_f64_s
    local.tee 2
    local.get 2
    global.set 20
    call $log
    i32.const 7
    i32.const 2
    i32.div_s
    local.tee 2
    local.get 2
    global.set 21
    call $log
    i32.const 1
    memory.grow
    local.tee 2
    local.get 2
    global.set 22
    call $log
    i32.const 64
    i32.const 1
    i32.const 4
    memory.fill
    i32.const 5
    i32.load8_u offset=60
    local.tee 2
    local.get 2
    global.set 23
    call $log
    i32.const 80
    i64.const 123456789
    i64.store32
    i32.const 80
    i32.load
    i32.const 1
    i32.const 1
    local.tee 2
    local.get 2
    i32.const 1
    i32.add
    global.set 24
    select
    local.tee 2
    local.get 2
    global.set 25
    call $log
  )
  (func $"#func12 whamm.flush" (@name "whamm.flush") (;12;) (type 5)
    (local i32)
    global.get 26
    local.set 0
    i32.const 0
    global.set 26
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
