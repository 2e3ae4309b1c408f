  (func $divide (;0;) (type 0) (param i32) (result i32)
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    i32.const 12
    local.get 0
    i32.div_u
  )
  (func (;1;) (type 1) (result i32)
    (local $n i32)
    global.get 1
    i32.const 1
    i32.add
    global.set 1
    i32.const 3
    local.set $n
    loop (result i32) ;; label = @1
      global.get 2
      i32.const 1
      i32.add
      global.set 2
      i32.const 0
      local.get $n
      call $divide
      global.get 3
      i32.const 1
      i32.add
      global.set 3
      i32.store
      local.get $n
      i32.const 1
      i32.sub
      local.set $n
      br 0 (;@1;)
    end
    global.get 4
    i32.const 1
    i32.add
    global.set 4
  )
  (func $"#func6 whamm.flush" (@name "whamm.flush") (;6;) (type 3)
    (local i32)
    global.get 5
    local.set 0
    i32.const 0
    global.set 5
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
