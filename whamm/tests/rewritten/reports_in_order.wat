  (func $fac (;0;) (type 0) (param $n i32) (result i32)
    local.get $n
    i32.const 1
    i32.le_s
    if (result i32) ;; label = @1
      i32.const 1
    else
      local.get $n
      local.get $n
      i32.const 1
      i32.sub
      call $fac
      i32.mul
    end
  )
  (func $loop (;1;) (type 0) (param i32) (result i32)
    (local $s i32)
    block ;; label = @1
      loop ;; label = @2
        local.get 0
        i32.eqz
        br_if 1 (;@1;)
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
    end
    local.get $s
  )
  (func (;2;) (type 1) (result i32)
    i32.const 100
    i32.const 5
    call $fac
    i32.store
    i32.const 96
    i32.load offset=4
    i32.const 10
    call $loop
    i32.add
  )
  (func $"#func8 whamm.flush" (@name "whamm.flush") (;8;) (type 3)
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
