  (func $fac (;0;) (type 0) (param $n i32) (result i32)
    global.get 6
    i32.const 1
    i32.add
    global.set 6
    global.get 17
    i32.const 1
    i32.add
    global.set 17
    global.get 18
    i64.const 1
    i64.add
    global.set 18
    local.get $n
    i32.const 1
    i32.le_s
    global.get 13
    i32.const 4
    i32.add
    global.set 13
    if (result i32) ;; label = @1
      global.get 16
      i32.const 1
      i32.add
      global.set 16
      global.get 21
      i64.const 1
      i64.add
      global.set 21
      i32.const 1
      global.get 19
      i32.const 2
      i32.add
      global.set 19
    else
      global.get 26
      i64.const 1
      i64.add
      global.set 26
      local.get $n
      local.get $n
      i32.const 1
      i32.sub
      global.get 25
      i32.const 1
      i32.add
      global.set 25
      global.get 1
      f64.const 0x1.8p+1 (;=3;)
      f64.mul
      global.set 1
      global.get 2
      i32.const 2
      i32.add
      global.set 2
      call $fac
      global.get 29
      i64.const 1
      i64.add
      global.set 29
      global.get 27
      i32.const 6
      i32.add
      global.set 27
      i32.mul
    end
    global.get 33
    i64.const 1
    i64.add
    global.set 33
    global.get 31
    i32.const 2
    i32.add
    global.set 31
    global.get 32
    i32.const 1
    i32.add
    global.set 32
  )
  (func $loop (;1;) (type 0) (param i32) (result i32)
    (local $s i32)
    global.get 34
    i32.const 1
    i32.add
    global.set 34
    global.get 37
    i64.const 1
    i64.add
    global.set 37
    global.get 35
    i32.const 1
    i32.add
    global.set 35
    block ;; label = @1
      loop ;; label = @2
        global.get 43
        i32.const 1
        i32.add
        global.set 43
        global.get 44
        i64.const 1
        i64.add
        global.set 44
        local.get 0
        i32.eqz
        global.get 40
        i32.const 4
        i32.add
        global.set 40
        br_if 1 (;@1;)
        global.get 42
        i32.const 1
        i32.add
        global.set 42
        global.get 49
        i64.const 1
        i64.add
        global.set 49
        local.get $s
        local.get 0
        i32.add
        local.set $s
        local.get 0
        i32.const 1
        i32.sub
        local.set 0
        global.get 47
        i32.const 9
        i32.add
        global.set 47
        br 0 (;@2;)
      end
      global.get 51
      i64.const 1
      i64.add
      global.set 51
      global.get 50
      i32.const 1
      i32.add
      global.set 50
    end
    global.get 54
    i64.const 1
    i64.add
    global.set 54
    local.get $s
    global.get 52
    i32.const 3
    i32.add
    global.set 52
    global.get 53
    i32.const 1
    i32.add
    global.set 53
  )
  (func (;2;) (type 1) (result i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32)
    global.get 55
    i32.const 1
    i32.add
    global.set 55
    global.get 57
    i64.const 1
    i64.add
    global.set 57
    i32.const 100
    i32.const 5
    global.get 56
    i32.const 1
    i32.add
    global.set 56
    global.get 1
    f64.const 0x1.8p+1 (;=3;)
    f64.mul
    global.set 1
    global.get 2
    i32.const 2
    i32.add
    global.set 2
    call $fac
    global.get 69
    i64.const 1
    i64.add
    global.set 69
    local.set 0
    local.tee 1
    local.get 0
    local.get 1
    global.set 60
    i32.const 5951
    i32.const 9
    local.set 3
    local.set 2
    local.get 2
    local.get 3
    call $whamm.puts
    i32.const 5960
    i32.const 4
    call $whamm.puts
    local.get 1
    local.set 4
    local.get 4
    i64.extend_i32_u
    call $whamm.put_u64
    i32.const 5964
    i32.const 1
    call $whamm.puts
    i32.const 8
    local.set 5
    local.get 5
    i64.extend_i32_u
    call $whamm.put_hex
    i32.const 5965
    i32.const 1
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.store
    i32.const 96
    local.tee 1
    local.get 1
    i32.const 4
    i32.add
    global.set 68
    i32.const 5997
    i32.const 8
    local.set 7
    local.set 6
    local.get 6
    local.get 7
    call $whamm.puts
    i32.const 5960
    i32.const 4
    call $whamm.puts
    local.get 1
    i32.const 4
    i32.add
    local.set 0
    local.get 0
    i64.extend_i32_u
    call $whamm.put_u64
    i32.const 5964
    i32.const 1
    call $whamm.puts
    i32.const 14
    local.set 5
    local.get 5
    i64.extend_i32_u
    call $whamm.put_hex
    i32.const 5965
    i32.const 1
    call $whamm.puts
    call $"#func7 whamm.flush"
    i32.load offset=4
    i32.const 10
    call $loop
    global.get 72
    i64.const 1
    i64.add
    global.set 72
    i32.add
    global.get 70
    i32.const 10
    i32.add
    global.set 70
    global.get 71
    i32.const 1
    i32.add
    global.set 71
  )
  (func $"#func7 whamm.flush" (@name "whamm.flush") (;7;) (type 5)
    (local i32)
    global.get 61
    local.set 0
    i32.const 0
    global.set 61
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
  (func $"#func14 whamm.total" (@name "whamm.total") (;14;) (type 2) (result i32)
    global.get 18
    i32.wrap_i64
    global.get 26
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
    global.get 44
    i32.wrap_i64
    i32.add
    global.get 49
    i32.wrap_i64
    i32.const 5
    i32.mul
    i32.add
    global.get 54
    i32.wrap_i64
    i32.add
  )
  (func $"#func15 whamm.total" (@name "whamm.total") (;15;) (type 2) (result i32)
    global.get 18
    i32.wrap_i64
    global.get 26
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
    global.get 44
    i32.wrap_i64
    i32.add
    global.get 49
    i32.wrap_i64
    i32.const 3
    i32.mul
    i32.add
    global.get 54
    i32.wrap_i64
    i32.add
  )
  (func $"#func16 whamm.total" (@name "whamm.total") (;16;) (type 2) (result i32)
    global.get 18
    i32.wrap_i64
    global.get 21
    i32.wrap_i64
    i32.add
    global.get 26
    i32.wrap_i64
    i32.add
    global.get 49
    i32.wrap_i64
    i32.add
    global.get 57
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
    global.get 69
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
  )
  (func $"#func17 whamm.total" (@name "whamm.total") (;17;) (type 2) (result i32)
    global.get 18
    i32.wrap_i64
    global.get 21
    i32.wrap_i64
    i32.add
    global.get 26
    i32.wrap_i64
    i32.add
    global.get 49
    i32.wrap_i64
    i32.add
    global.get 57
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
    global.get 69
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
  )
  (func $"#func18 whamm.total" (@name "whamm.total") (;18;) (type 2) (result i32)
    global.get 18
    i32.wrap_i64
    global.get 44
    i32.wrap_i64
    i32.add
  )
  (func $"#func19 whamm.total" (@name "whamm.total") (;19;) (type 2) (result i32)
    global.get 18
    i32.wrap_i64
  )
  (func $"#func20 whamm.total" (@name "whamm.total") (;20;) (type 2) (result i32)
    global.get 18
    i32.wrap_i64
    global.get 21
    i32.wrap_i64
    i32.add
    global.get 26
    i32.wrap_i64
    i32.add
    global.get 33
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
    global.get 37
    i32.wrap_i64
    i32.add
    global.get 44
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
    global.get 49
    i32.wrap_i64
    i32.add
    global.get 51
    i32.wrap_i64
    i32.add
    global.get 54
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
    global.get 57
    i32.wrap_i64
    i32.add
    global.get 69
    i32.wrap_i64
    i32.add
    global.get 72
    i32.wrap_i64
    i32.add
  )
  (func $"#func21 whamm.total" (@name "whamm.total") (;21;) (type 2) (result i32)
    global.get 18
    i32.wrap_i64
  )
  (func $"#func22 whamm.total" (@name "whamm.total") (;22;) (type 2) (result i32)
    global.get 21
    i32.wrap_i64
  )
  (func $"#func23 whamm.total" (@name "whamm.total") (;23;) (type 2) (result i32)
    global.get 26
    i32.wrap_i64
    global.get 29
    i32.wrap_i64
    i32.add
    global.get 49
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
    global.get 72
    i32.wrap_i64
    i32.add
  )
  (func $"#func24 whamm.total" (@name "whamm.total") (;24;) (type 2) (result i32)
    global.get 26
    i32.wrap_i64
    global.get 49
    i32.wrap_i64
    i32.add
  )
  (func $"#func25 whamm.total" (@name "whamm.total") (;25;) (type 2) (result i32)
    global.get 26
    i32.wrap_i64
    global.get 57
    i32.wrap_i64
    i32.add
    global.get 69
    i32.wrap_i64
    i32.add
  )
  (func $"#func26 whamm.total" (@name "whamm.total") (;26;) (type 2) (result i32)
    global.get 29
    i32.wrap_i64
  )
  (func $"#func27 whamm.total" (@name "whamm.total") (;27;) (type 2) (result i32)
    global.get 33
    i32.wrap_i64
    i32.const 2
    i32.mul
    global.get 51
    i32.wrap_i64
    i32.add
    global.get 54
    i32.wrap_i64
    i32.const 2
    i32.mul
    i32.add
    global.get 72
    i32.wrap_i64
    i32.add
  )
  (func $"#func28 whamm.total" (@name "whamm.total") (;28;) (type 2) (result i32)
    global.get 37
    i32.wrap_i64
  )
  (func $"#func29 whamm.total" (@name "whamm.total") (;29;) (type 2) (result i32)
    global.get 44
    i32.wrap_i64
  )
  (func $"#func30 whamm.total" (@name "whamm.total") (;30;) (type 2) (result i32)
    global.get 44
    i32.wrap_i64
  )
  (func $"#func31 whamm.total" (@name "whamm.total") (;31;) (type 2) (result i32)
    global.get 44
    i32.wrap_i64
  )
  (func $"#func32 whamm.total" (@name "whamm.total") (;32;) (type 2) (result i32)
    global.get 49
    i32.wrap_i64
    global.get 72
    i32.wrap_i64
    i32.add
  )
  (func $"#func33 whamm.total" (@name "whamm.total") (;33;) (type 2) (result i32)
    global.get 49
    i32.wrap_i64
    i32.const 2
    i32.mul
  )
  (func $"#func34 whamm.total" (@name "whamm.total") (;34;) (type 2) (result i32)
    global.get 49
    i32.wrap_i64
  )
  (func $"#func35 whamm.total" (@name "whamm.total") (;35;) (type 2) (result i32)
    global.get 69
    i32.wrap_i64
  )
  (func $"#func36 whamm.total" (@name "whamm.total") (;36;) (type 2) (result i32)
    global.get 69
    i32.wrap_i64
  )
  (func $"#func37 whamm.total" (@name "whamm.total") (;37;) (type 2) (result i32)
    global.get 69
    i32.wrap_i64
  )
  (func $"#func38 whamm.total" (@name "whamm.total") (;38;) (type 2) (result i32)
    global.get 69
    i32.wrap_i64
  )
