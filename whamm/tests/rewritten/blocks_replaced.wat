  (func $main (;1;) (type 1)
    (local i32)
    i32.const 1
    call $log
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    i32.const 1
    local.set 0
    global.get 0
    i32.const 10
    i32.add
    global.set 0
  )
  (func $"#func6 whamm.flush" (@name "whamm.flush") (;6;) (type 2)
    (local i32)
    global.get 1
    local.set 0
    i32.const 0
    global.set 1
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
