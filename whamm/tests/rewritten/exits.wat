  (func $say (;2;) (type 2)
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    i32.const 0
    i32.const 16
    i32.store
    i32.const 4
    i32.const 6
    i32.store
    i32.const 1
    i32.const 0
    i32.const 1
    i32.const 8
    global.get 1
    i32.const 1
    i32.add
    global.set 1
    call $write
    drop
  )
  (func (;3;) (type 2)
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    global.get 3
    i32.const 1
    i32.add
    global.set 3
    call $say
    global.get 4
    i32.const 1
    i32.add
    global.set 4
    call $say
    i32.const 3
    i32.const 0
    global.get 5
    i32.const 1
    i32.add
    global.set 5
    call_indirect (type 0)
    global.get 6
    i32.const 1
    i32.add
    global.set 6
    call $say
  )
  (func $"#func9 whamm.flush" (@name "whamm.flush") (;9;) (type 4)
    (local i32)
    global.get 7
    local.set 0
    i32.const 0
    global.set 7
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_lent
    end
  )
