  (func (;4;) (type 0)
    global.get 0
    i32.const 2
    i32.add
    global.set 0
    nop
  )
  (func $"#func11 whamm.flush" (@name "whamm.flush") (;11;) (type 1)
    (local i32)
    global.get 5
    local.set 0
    i32.const 0
    global.set 5
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_own
    end
  )
