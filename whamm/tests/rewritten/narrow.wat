  (func $f (;0;) (type 0) (param i32) (result i32)
    local.get 0
  )
  (func (;1;) (type 1) (result i64 i32)
    (local i32 i32)
    i64.const 16
    i64.const 77
    i64.store offset=8
    i32.const 8
    i32.const 5
    local.set 0
    local.tee 1
    local.get 0
    local.get 1
    i32.const 4
    i32.add
    global.set 0
    i32.store $n offset=4
    i64.const 40
    i32.const 12
    i32.const 4
    memory.copy 0 $n
    i64.const 60
    i32.const 1
    i64.const 2
    memory.fill
    i64.const 1
    memory.grow
    drop
    i64.const 24
    i64.load
    i32.const 12
    i32.load $n
    i64.const 1
    call_indirect (type 0)
  )
  (func $"#func6 whamm.flush" (@name "whamm.flush") (;6;) (type 3)
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
