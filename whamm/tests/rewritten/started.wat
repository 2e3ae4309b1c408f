  (func $main (;1;) (type 1)
    i32.const 1
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    call $log
    block ;; label = @1
      i32.const 2
      global.get 0
      i32.const 1
      i32.add
      global.set 0
      call $log
    end
    i32.const 1
    if ;; label = @1
      i32.const 3
      global.get 0
      i32.const 1
      i32.add
      global.set 0
      call $log
    end
    global.get 1
    i32.const 1
    i32.add
    global.set 1
  )
  (func $"#func6 whamm.flush" (@name "whamm.flush") (;6;) (type 2)
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
