  (func $fac (;0;) (type 0) (param $n i32) (result i32)
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    local.get $n
    i32.const 1
    i32.le_s
    if (result i32) ;; label = @1
      global.get 1
      i32.const 1
      i32.add
      global.set 1
      i32.const 1
    else
      global.get 2
      i32.const 1
      i32.add
      global.set 2
      local.get $n
      local.get $n
      i32.const 1
      i32.sub
      call $fac
      global.get 3
      i32.const 1
      i32.add
      global.set 3
      i32.mul
    end
    global.get 4
    i32.const 1
    i32.add
    global.set 4
  )
  (func $loop (;1;) (type 0) (param i32) (result i32)
    (local $s i32)
    global.get 5
    i32.const 1
    i32.add
    global.set 5
    block ;; label = @1
      loop ;; label = @2
        global.get 6
        i32.const 1
        i32.add
        global.set 6
        local.get 0
        i32.eqz
        br_if 1 (;@1;)
        global.get 7
        i32.const 1
        i32.add
        global.set 7
        local.get $s
        local.get 0
        i32.add
        local.set $s
        local.get 0
        i32.const 1
        i32.sub
        local.set 0
        br 0 (;@2;)
      end
      global.get 8
      i32.const 1
      i32.add
      global.set 8
    end
    global.get 9
    i32.const 1
    i32.add
    global.set 9
    local.get $s
  )
  (func (;2;) (type 1) (result i32)
    global.get 10
    i32.const 1
    i32.add
    global.set 10
    i32.const 100
    i32.const 5
    call $fac
    global.get 11
    i32.const 1
    i32.add
    global.set 11
    i32.store
    i32.const 96
    i32.load offset=4
    i32.const 10
    call $loop
    global.get 12
    i32.const 1
    i32.add
    global.set 12
    i32.add
  )
  (func $"#func7 whamm.flush" (@name "whamm.flush") (;7;) (type 3)
    (local i32)
    global.get 13
    local.set 0
    i32.const 0
    global.set 13
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
