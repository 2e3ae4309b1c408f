  (func (;4;) (type 0) (result i32)
    i32.const 8
    call $"#func7 whamm.flush"
    i32.const 0
    call $putu32
    i32.const 5632
    i32.const 2
    call $whamm.puts
    call $"#func7 whamm.flush"
    memory.size 1
    call $putu32
    i32.const 5634
    i32.const 18
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.const 40
    call $putu32
    i32.const 5652
    i32.const 1
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.load 1
    i32.const 8
    call $"#func7 whamm.flush"
    i32.const 1
    call $putu32
    i32.const 5632
    i32.const 2
    call $whamm.puts
    call $"#func7 whamm.flush"
    memory.size $other
    call $putu32
    i32.const 5634
    i32.const 18
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.const 70
    call $putu32
    i32.const 5652
    i32.const 1
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.load $other
    i32.add
  )
  (func $"#func7 whamm.flush" (@name "whamm.flush") (;7;) (type 4)
    (local i32)
    global.get 0
    local.set 0
    i32.const 0
    global.set 0
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_core
    end
  )
