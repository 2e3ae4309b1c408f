  (func $give_up (;1;) (type 0) (param i32)
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    global.get 1
    i32.const 1
    i32.add
    global.set 1
    local.get 0
    i32.eqz
    if ;; label = @1
      global.get 2
      i32.const 1
      i32.add
      global.set 2
      global.get 3
      i32.const 1
      i32.add
      global.set 3
      call $whamm.flush
      unreachable
    end
    global.get 4
    i32.const 1
    i32.add
    global.set 4
    local.get 0
    i32.const 1
    i32.sub
    call $give_up
    global.get 5
    i32.const 1
    i32.add
    global.set 5
  )
  (func (;2;) (type 1)
    global.get 6
    i32.const 1
    i32.add
    global.set 6
    global.get 7
    i32.const 1
    i32.add
    global.set 7
    i32.const 3
    call $give_up
    global.get 8
    i32.const 1
    i32.add
    global.set 8
  )
  (func $"#func7 whamm.flush" (@name "whamm.flush") (;7;) (type 2)
    (local i32)
    global.get 9
    local.set 0
    i32.const 0
    global.set 9
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_own
    end
  )
