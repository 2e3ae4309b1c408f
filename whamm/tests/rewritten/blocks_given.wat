  (func $f (;1;) (type 1) (param i32) (result i64)
    (local i32 i32 i32 i32 i64 i64 i64 i32 i32 i32)
    local.get 0
    i32.const 7
    i32.eq
    local.set 1
    local.get 0
    local.tee 2
    local.get 2
    local.set 3
    if ;; label = @1
      local.get 3
      i32.const 7
      i32.eq
      if ;; label = @2
        global.get 2
        i32.const 1
        i32.add
        global.set 2
      end
      global.get 3
      local.get 3
      i32.add
      global.set 3
      nop
      global.get 0
      local.get 3
      i32.add
      global.set 0
    else
      nop
    end
    global.get 1
    local.get 3
    i32.add
    i32.const 1
    i32.add
    global.set 1
    i64.const 3
    local.get 0
    local.tee 2
    local.get 2
    local.set 4
    if (type 2) (param i64) (result i64) ;; label = @1
      local.get 4
      i32.const 7
      i32.eq
      if ;; label = @2
        global.get 6
        i32.const 1
        i32.add
        global.set 6
      end
      global.get 7
      local.get 4
      i32.add
      global.set 7
      i64.const 1
      i64.add
      global.get 4
      local.get 4
      i32.add
      global.set 4
    end
    global.get 5
    local.get 4
    i32.add
    i32.const 1
    i32.add
    global.set 5
    local.tee 5
    local.get 5
    local.set 6
    block (type 2) (param i64) (result i64) ;; label = @1
      i64.const 5
      i64.add
      global.get 8
      local.get 6
      i64.add
      global.set 8
    end
    global.get 9
    local.get 6
    i64.add
    global.set 9
    local.tee 5
    local.get 5
    local.set 7
    block (type 2) (param i64) (result i64) ;; label = @1
      br 0 (;@1;)
    end
    global.get 11
    local.get 7
    i64.add
    global.set 11
    i32.const 5
    local.tee 2
    local.get 2
    local.set 8
    loop (type 3) (param i32) (result i32) ;; label = @1
      local.tee 9
      global.get 14
      local.get 9
      i32.add
      global.set 14
      i32.const 1
      i32.sub
      local.tee 0
      local.get 0
      br_if 0 (;@1;)
      global.get 12
      local.get 8
      i32.add
      global.set 12
    end
    global.get 13
    local.get 8
    i32.add
    global.set 13
    drop
    local.get 1
    local.tee 9
    local.get 9
    local.set 10
    if (result i64) ;; label = @1
      local.get 10
      i32.const 7
      i32.eq
      if ;; label = @2
        global.get 17
        i32.const 1
        i32.add
        global.set 17
      end
      global.get 18
      local.get 10
      i32.add
      global.set 18
      i64.const 1
      i32.const 2
      call $f
      i64.add
      global.get 15
      local.get 10
      i32.add
      global.set 15
    else
      i64.const 0
    end
    global.get 16
    local.get 10
    i32.add
    i32.const 1
    i32.add
    global.set 16
    i64.add
  )
  (func (;2;) (type 4)
    i32.const 1
    call $f
    drop
    i32.const 0
    call $f
    drop
    i32.const 7
    call $f
    drop
  )
  (func $"#func7 whamm.flush" (@name "whamm.flush") (;7;) (type 5)
    (local i32)
    global.get 19
    local.set 0
    i32.const 0
    global.set 19
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_lent
    end
  )
