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
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    i32.const 5632
    i32.const 12
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.const 5644
    i32.const 2
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.const 5646
    i32.const 18
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.const 5664
    i32.const 10
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.const 2147483647
    local.set 11
    local.get 11
    i64.extend_i32_s
    call $whamm.put_i64
    i32.const 5674
    i32.const 1
    call $whamm.puts
    i64.const 2147483648
    local.set 12
    local.get 12
    call $whamm.put_i64
    i32.const 5674
    i32.const 1
    call $whamm.puts
    i64.const -9223372036854775808
    local.set 13
    local.get 13
    call $whamm.put_u64
    i32.const 5675
    i32.const 1
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.const 1
    local.set 0
    local.get 0
    local.get 0
    i32.or
    local.get 0
    i32.eqz
    i32.and
    global.set 0
    i32.const 13
    i32.const 20
    i32.const 4
    i32.const 2
    global.set 4
    global.set 3
    global.set 2
    global.set 1
    i32.const 6
    i32.const 7
    i32.const 7
    global.set 7
    global.set 6
    global.set 5
    i32.const 7
    global.set 8
    i32.const 10
    local.set 1
    local.get 1
    i32.const 1
    i32.sub
    local.get 1
    i32.const 1
    i32.sub
    local.get 1
    i32.const -1
    i32.mul
    global.set 11
    global.set 10
    global.set 9
    i32.const 200
    local.set 2
    i32.const 100
    local.set 3
    i32.const 65535
    local.set 4
    i32.const -32768
    local.set 5
    local.get 2
    i32.const 100
    i32.add
    i32.const 255
    i32.and
    local.get 3
    i32.const 100
    i32.add
    i32.extend8_s
    local.get 4
    i32.const 2
    i32.add
    i32.const 65535
    i32.and
    local.get 5
    i32.const 1
    i32.sub
    i32.extend16_s
    global.set 15
    global.set 14
    global.set 13
    global.set 12
    i32.const 129
    local.set 6
    i32.const -127
    local.set 7
    i32.const -2147483647
    local.set 8
    i32.const -2147483647
    local.set 9
    local.get 6
    i32.const 1
    i32.shr_u
    i32.const 255
    i32.and
    local.get 7
    i32.const 1
    i32.shr_s
    i32.extend8_s
    local.get 8
    i32.const 1
    i32.shr_u
    local.get 9
    i32.const 1
    i32.shr_s
    global.set 19
    global.set 18
    global.set 17
    global.set 16
    global.get 0
    i32.const 1
    i32.eq
    global.set 0
    i32.const 5680
    call $whamm.map_like
    local.set 10
    local.get 10
    local.set 11
    i32.const 1
    local.set 14
    i32.const 0
    local.get 14
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 11
    call $whamm.map_find
    local.tee 15
    if (result i32) ;; label = @1
      local.get 15
      i32.load 1
    else
      i32.const 0
    end
    local.get 10
    local.set 16
    i32.const 2
    local.set 17
    i32.const 0
    local.get 17
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 16
    call $whamm.map_find
    local.tee 18
    if (result i32) ;; label = @1
      local.get 18
      i32.load 1
    else
      i32.const 0
    end
    i32.add
    local.set 19
    local.get 10
    local.set 20
    i32.const 3
    local.set 21
    i32.const 0
    local.get 21
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 20
    call $whamm.map_get
    local.set 22
    local.get 19
    local.set 23
    local.get 22
    local.get 23
    i32.store 1
    global.get 20
    local.get 10
    i32.load 1
    i32.add
    global.set 20
    global.get 20
    global.set 21
    i32.const 5720
    i32.const 7
    call $whamm.puts
    call $"#func7 whamm.flush"
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
  (func $"#func7 whamm.flush" (@name "whamm.flush") (;7;) (type 5)
    (local i32)
    global.get 22
    local.set 0
    i32.const 0
    global.set 22
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
