  (func $fac (;0;) (type 0) (param $n i32) (result i32)
    (local i32 i32 i32 i32 i32)
    i32.const 0
    local.set 1
    local.get 1
    i32.const 1
    i32.add
    local.set 1
    local.get $n
    i32.const 1
    i32.le_s
    if (result i32) ;; label = @1
      i32.const 1
    else
      local.get 1
      i32.const 1
      i32.add
      local.set 1
      local.get $n
      local.get 1
      i32.const 1
      i32.add
      local.set 1
      local.get $n
      i32.const 1
      i32.sub
      call $fac
      i32.mul
    end
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    local.get 1
    local.set 4
    i32.const 0
    local.get 4
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 3
    call $whamm.map_get
    local.set 5
    local.get 5
    local.get 5
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
  )
  (func $loop (;1;) (type 0) (param i32) (result i32)
    (local $s i32) (local i32 i32 i32 i32 i32)
    i32.const 0
    local.set 2
    block ;; label = @1
      loop ;; label = @2
        local.get 2
        i32.const 1
        i32.add
        local.set 2
        local.get 0
        i32.eqz
        br_if 1 (;@1;)
        local.get 2
        i32.const 1
        i32.add
        local.set 2
        local.get $s
        local.get 2
        i32.const 1
        i32.add
        local.set 2
        local.get 0
        i32.add
        local.set $s
        local.get 2
        i32.const 1
        i32.add
        local.set 2
        local.get 0
        i32.const 1
        i32.sub
        local.set 0
        br 0 (;@2;)
      end
    end
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get $s
    i32.const 1
    local.set 3
    i32.const 5640
    local.set 4
    local.get 2
    local.set 5
    i32.const 0
    local.get 5
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 4
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 3
    i32.add
    i32.store 1
  )
  (func (;2;) (type 1) (result i32)
    (local i32 i32 i32 i32 i32)
    i32.const 0
    local.set 0
    i32.const 100
    i32.const 5
    call $fac
    i32.store
    i32.const 96
    i32.load offset=4
    i32.const 10
    call $loop
    i32.add
    i32.const 1
    local.set 1
    i32.const 5640
    local.set 2
    local.get 0
    local.set 3
    i32.const 0
    local.get 3
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 2
    call $whamm.map_get
    local.set 4
    local.get 4
    local.get 4
    i32.load 1
    local.get 1
    i32.add
    i32.store 1
  )
  (func $"#func15 whamm.flush" (@name "whamm.flush") (;15;) (type 7)
    (local i32)
    global.get 2
    local.set 0
    i32.const 0
    global.set 2
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
