  (func $say (;7;) (type 2)
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
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    call $write
    drop
  )
  (func (;8;) (type 2)
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    call $say
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    call $say
    i32.const 3
    i32.const 0
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    call_indirect (type 0)
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    call $say
  )
  (func $"#func23 whamm.flush" (@name "whamm.flush") (;23;) (type 4)
    (local i32)
    global.get 8
    local.set 0
    i32.const 0
    global.set 8
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_lent
    end
  )
