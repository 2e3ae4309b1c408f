  (func $say (;2;) (type 2)
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
    call $write
    drop
  )
  (func (;3;) (type 2)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 f64 i32 i32 i32 i32)
    call $say
    call $say
    i32.const 3
    i32.const 0
    local.set 0
    local.tee 1
    local.get 0
    i32.const 1
    local.set 5
    i32.const 5640
    local.set 6
    local.get 1
    local.set 7
    i32.const 0
    local.get 7
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 6
    call $whamm.map_get
    local.set 8
    local.get 5
    local.set 9
    local.get 8
    local.get 9
    i32.store 1
    i32.const -3
    local.set 9
    local.get 9
    i64.extend_i32_s
    call $whamm.put_i64
    call $"#func17 whamm.flush"
    i32.const 32
    call $whamm.putc
    call $"#func17 whamm.flush"
    f64.const 0x1.4p+1 (;=2.5;)
    local.set 10
    local.get 10
    call $whamm.put_f64
    call $"#func17 whamm.flush"
    i32.const 32
    call $whamm.putc
    call $"#func17 whamm.flush"
    i32.const 1
    local.set 9
    local.get 9
    call $whamm.put_bool
    call $"#func17 whamm.flush"
    i32.const 10
    call $whamm.putc
    call $"#func17 whamm.flush"
    i32.const 5680
    i32.const 4
    local.set 3
    local.set 2
    i32.const 8
    call $whamm.alloc
    local.set 4
    local.get 2
    local.get 3
    drop
    local.get 2
    local.get 3
    local.set 12
    local.set 11
    local.get 12
    call $whamm.puts
    call $"#func17 whamm.flush"
    local.get 4
    drop
    i32.const 5640
    call $whamm.put_map
    i32.const 10
    call $whamm.putc
    call $"#func17 whamm.flush"
    i32.const 5640
    call $whamm.put_map
    i32.const 10
    call $whamm.putc
    call $"#func17 whamm.flush"
    local.get 4
    i32.const 5684
    i32.const 4
    memory.copy 1 1
    local.get 4
    local.set 9
    i32.const 4
    local.tee 8
    call $whamm.alloc
    local.tee 7
    local.get 9
    local.get 8
    memory.copy 1 1
    local.get 7
    local.get 8
    local.set 14
    local.set 13
    local.get 13
    local.get 14
    call $whamm.puts
    i32.const 5688
    i32.const 1
    call $whamm.puts
    call $"#func17 whamm.flush"
    memory.size
    local.set 7
    local.get 7
    i64.extend_i32_u
    call $whamm.put_u64
    i32.const 5689
    i32.const 1
    call $whamm.puts
    i32.const 65536
    local.set 8
    local.get 8
    i64.extend_i32_u
    call $whamm.put_u64
    i32.const 5689
    i32.const 1
    call $whamm.puts
    i32.const 16
    local.set 9
    local.get 9
    i64.extend_i32_u
    call $whamm.put_u64
    i32.const 5688
    i32.const 1
    call $whamm.puts
    call $"#func17 whamm.flush"
    call_indirect (type 0)
    call $say
  )
  (func $"#func17 whamm.flush" (@name "whamm.flush") (;17;) (type 4)
    (local i32)
    global.get 1
    local.set 0
    i32.const 0
    global.set 1
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_lent
    end
  )
