  (func $fac (;0;) (type 0) (param $n i32) (result i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32)
    local.get $n
    i32.const 1
    i32.le_s
    if (result i32) ;; label = @1
      i32.const 1
    else
      local.get $n
      local.get $n
      i32.const 1
      i32.sub
      call $fac
      local.set 1
      local.tee 2
      local.get 1
      local.get 1
      i32.const 65536
      i32.mul
      local.get 2
      i32.add
      local.set 3
      global.get 7
      local.get 3
      i32.const -65536
      i32.and
      i32.const 16
      i32.shr_s
      i32.add
      global.set 7
      global.get 8
      local.get 3
      i32.const 65535
      i32.and
      i32.add
      global.set 8
      local.get 1
      i32.const 559038739
      i32.sub
      i32.const -559038737
      i32.eq
      if ;; label = @2
        global.get 5
        i32.const 1
        i32.add
        global.set 5
      end
      i32.const -2
      i32.const 1
      local.get 2
      i32.const 2
      i32.eq
      select
      local.set 4
      i32.const 5640
      local.set 5
      i32.const -1
      local.set 6
      i32.const 0
      local.get 6
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      local.get 5
      call $whamm.map_get
      local.set 7
      local.get 4
      local.set 8
      local.get 7
      local.get 8
      i32.store 1
      i32.mul
    end
  )
  (func $loop (;1;) (type 0) (param i32) (result i32)
    (local $s i32)
    block ;; label = @1
      loop ;; label = @2
        local.get 0
        i32.eqz
        br_if 1 (;@1;)
        local.get $s
        local.get 0
        i32.add
        local.set $s
        local.get 0
        i32.const 1
        i32.sub
        local.set 0
        br 0 (;@2;)
      end
    end
    local.get $s
  )
  (func (;2;) (type 1) (result i32)
    global.get 6
    i32.const 1
    i32.add
    global.set 6
    i32.const 100
    i32.const 5
    call $fac
    i32.store
    i32.const 96
    i32.load offset=4
    i32.const 10
    call $loop
    i32.add
  )
  (func $"#func15 whamm.flush" (@name "whamm.flush") (;15;) (type 7)
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
