  (func $f (;0;) (type 0) (param i32) (result i32)
    local.get 0
  )
  (func (;1;) (type 1) (result i64 i32)
    (local i64 i64 i32 i32)
    i64.const 16
    i64.const 77
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    local.set 0
    local.tee 1
    local.get 0
    local.get 1
    i64.const 8
    i64.add
    global.set 0
    local.get 1
    global.set 1
    i64.store offset=8
    i32.const 8
    i32.const 5
    local.set 2
    local.tee 3
    local.get 2
    local.get 3
    i32.const 4
    i32.add
    i64.extend_i32_u
    global.set 3
    local.get 3
    i64.extend_i32_u
    global.set 4
    i32.store $n offset=4
    i64.const 40
    i32.const 12
    i32.const 4
    local.set 3
    local.set 2
    local.tee 1
    local.get 2
    local.get 3
    local.get 3
    i64.extend_i32_s
    i64.const 1000000
    i64.mul
    local.get 2
    i64.extend_i32_s
    i64.const 1000
    i64.mul
    i64.add
    local.get 1
    i64.add
    global.set 5
    memory.copy 0 $n
    i64.const 60
    i32.const 1
    i64.const 2
    memory.fill
    i64.const 1
    local.tee 1
    memory.grow
    local.tee 0
    local.get 0
    local.get 1
    i64.add
    global.set 6
    local.get 0
    i64.const -1
    i64.eq
    global.set 7
    drop
    i64.const 24
    local.tee 0
    local.get 0
    global.set 8
    local.get 0
    global.set 9
    i64.load
    i32.const 12
    local.tee 2
    local.get 2
    i64.extend_i32_u
    global.set 10
    local.get 2
    i64.extend_i32_u
    global.set 11
    i32.load $n
    i64.const 1
    local.tee 0
    local.get 0
    i32.wrap_i64
    i32.const -1
    local.get 0
    i64.const 4294967295
    i64.lt_u
    select
    i32.const 2
    i32.lt_u
    if (result i32) ;; label = @1
      local.get 0
      i32.wrap_i64
      i32.const -1
      local.get 0
      i64.const 4294967295
      i64.lt_u
      select
      i32.const 2
      i32.shl
      i32.load 2 offset=5976
      i32.const 1
      i32.sub
    else
      i32.const -1
    end
    local.set 2
    local.get 0
    global.set 12
    local.get 2
    global.set 13
    call_indirect (type 0)
  )
  (func $"#func6 whamm.flush" (@name "whamm.flush") (;6;) (type 3)
    (local i32)
    global.get 14
    local.set 0
    i32.const 0
    global.set 14
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
