  (func $fac (;0;) (type 0) (param $n i32) (result i32)
    (local i32)
    local.get $n
    i32.const 1
    global.set 9
    i32.const 1
    i32.const 2
    i32.const 3
    global.set 8
    global.set 7
    global.set 6
    i32.const 4
    i64.const 5
    global.set 5
    global.set 4
    i32.const 6
    global.set 15
    i32.const 1
    i32.const 3
    i32.shl
    local.tee 1
    local.get 1
    i64.load 1 offset=5904 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5904 align=4
    i32.const 2
    i32.const 3
    i32.shl
    local.tee 1
    local.get 1
    i64.load 1 offset=5920 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5920 align=4
    global.get 2
    i64.const 1
    i64.add
    global.set 2
    global.get 3
    i32.const 1
    i32.sub
    global.set 3
    i32.const 5944
    i32.const 23
    global.set 1
    global.set 0
    i32.const 1
    i32.le_s
    if (result i32) ;; label = @1
      i32.const 1
      global.set 21
      i32.const 1
      i32.const 2
      i32.const 3
      global.set 20
      global.set 19
      global.set 18
      i32.const 4
      i64.const 5
      global.set 17
      global.set 16
      i32.const 6
      global.set 27
      i32.const 1
      i32.const 3
      i32.shl
      local.tee 1
      local.get 1
      i64.load 1 offset=5904 align=4
      i64.const 1
      i64.add
      i64.store 1 offset=5904 align=4
      i32.const 2
      i32.const 3
      i32.shl
      local.tee 1
      local.get 1
      i64.load 1 offset=5920 align=4
      i64.const 1
      i64.add
      i64.store 1 offset=5920 align=4
      global.get 2
      i64.const 1
      i64.add
      global.set 2
      global.get 3
      i32.const 1
      i32.sub
      global.set 3
      i32.const 5944
      i32.const 23
      global.set 1
      global.set 0
      i32.const 1
    else
      local.get $n
      local.get $n
      i32.const 1
      global.set 33
      i32.const 1
      i32.const 2
      i32.const 3
      global.set 32
      global.set 31
      global.set 30
      i32.const 4
      i64.const 5
      global.set 29
      global.set 28
      i32.const 6
      global.set 39
      i32.const 1
      i32.const 3
      i32.shl
      local.tee 1
      local.get 1
      i64.load 1 offset=5904 align=4
      i64.const 1
      i64.add
      i64.store 1 offset=5904 align=4
      i32.const 2
      i32.const 3
      i32.shl
      local.tee 1
      local.get 1
      i64.load 1 offset=5920 align=4
      i64.const 1
      i64.add
      i64.store 1 offset=5920 align=4
      global.get 2
      i64.const 1
      i64.add
      global.set 2
      global.get 3
      i32.const 1
      i32.sub
      global.set 3
      i32.const 5944
      i32.const 23
      global.set 1
      global.set 0
      i32.const 1
      i32.sub
      call $fac
      i32.mul
    end
  )
  (func $loop (;1;) (type 0) (param i32) (result i32)
    (local $s i32) (local i32)
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
        global.set 45
        i32.const 1
        i32.const 2
        i32.const 3
        global.set 44
        global.set 43
        global.set 42
        i32.const 4
        i64.const 5
        global.set 41
        global.set 40
        i32.const 6
        global.set 51
        i32.const 1
        i32.const 3
        i32.shl
        local.tee 2
        local.get 2
        i64.load 1 offset=5904 align=4
        i64.const 1
        i64.add
        i64.store 1 offset=5904 align=4
        i32.const 2
        i32.const 3
        i32.shl
        local.tee 2
        local.get 2
        i64.load 1 offset=5920 align=4
        i64.const 1
        i64.add
        i64.store 1 offset=5920 align=4
        global.get 2
        i64.const 1
        i64.add
        global.set 2
        global.get 3
        i32.const 1
        i32.sub
        global.set 3
        i32.const 5944
        i32.const 23
        global.set 1
        global.set 0
        i32.const 1
        i32.sub
        local.set 0
        br 0 (;@2;)
      end
    end
    local.get $s
  )
  (func (;2;) (type 1) (result i32)
    (local i32)
    i32.const 1
    global.set 57
    i32.const 1
    i32.const 2
    i32.const 3
    global.set 56
    global.set 55
    global.set 54
    i32.const 4
    i64.const 5
    global.set 53
    global.set 52
    i32.const 6
    global.set 63
    i32.const 1
    i32.const 3
    i32.shl
    local.tee 0
    local.get 0
    i64.load 1 offset=5904 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5904 align=4
    i32.const 2
    i32.const 3
    i32.shl
    local.tee 0
    local.get 0
    i64.load 1 offset=5920 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5920 align=4
    global.get 2
    i64.const 1
    i64.add
    global.set 2
    global.get 3
    i32.const 1
    i32.sub
    global.set 3
    i32.const 5944
    i32.const 23
    global.set 1
    global.set 0
    i32.const 100
    i32.const 1
    global.set 69
    i32.const 1
    i32.const 2
    i32.const 3
    global.set 68
    global.set 67
    global.set 66
    i32.const 4
    i64.const 5
    global.set 65
    global.set 64
    i32.const 6
    global.set 75
    i32.const 1
    i32.const 3
    i32.shl
    local.tee 0
    local.get 0
    i64.load 1 offset=5904 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5904 align=4
    i32.const 2
    i32.const 3
    i32.shl
    local.tee 0
    local.get 0
    i64.load 1 offset=5920 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5920 align=4
    global.get 2
    i64.const 1
    i64.add
    global.set 2
    global.get 3
    i32.const 1
    i32.sub
    global.set 3
    i32.const 5944
    i32.const 23
    global.set 1
    global.set 0
    i32.const 5
    call $fac
    i32.store
    i32.const 1
    global.set 81
    i32.const 1
    i32.const 2
    i32.const 3
    global.set 80
    global.set 79
    global.set 78
    i32.const 4
    i64.const 5
    global.set 77
    global.set 76
    i32.const 6
    global.set 87
    i32.const 1
    i32.const 3
    i32.shl
    local.tee 0
    local.get 0
    i64.load 1 offset=5904 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5904 align=4
    i32.const 2
    i32.const 3
    i32.shl
    local.tee 0
    local.get 0
    i64.load 1 offset=5920 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5920 align=4
    global.get 2
    i64.const 1
    i64.add
    global.set 2
    global.get 3
    i32.const 1
    i32.sub
    global.set 3
    i32.const 5944
    i32.const 23
    global.set 1
    global.set 0
    i32.const 96
    i32.load offset=4
    i32.const 1
    global.set 93
    i32.const 1
    i32.const 2
    i32.const 3
    global.set 92
    global.set 91
    global.set 90
    i32.const 4
    i64.const 5
    global.set 89
    global.set 88
    i32.const 6
    global.set 99
    i32.const 1
    i32.const 3
    i32.shl
    local.tee 0
    local.get 0
    i64.load 1 offset=5904 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5904 align=4
    i32.const 2
    i32.const 3
    i32.shl
    local.tee 0
    local.get 0
    i64.load 1 offset=5920 align=4
    i64.const 1
    i64.add
    i64.store 1 offset=5920 align=4
    global.get 2
    i64.const 1
    i64.add
    global.set 2
    global.get 3
    i32.const 1
    i32.sub
    global.set 3
    i32.const 5944
    i32.const 23
    global.set 1
    global.set 0
    i32.const 10
    call $loop
    i32.add
  )
  (func $"#func16 whamm.flush" (@name "whamm.flush") (;16;) (type 8)
    (local i32)
    global.get 101
    local.set 0
    i32.const 0
    global.set 101
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
