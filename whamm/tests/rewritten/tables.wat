  (func $a (;1;) (type $get) (result i32)
    i32.const 10
  )
  (func $b (;2;) (type $get) (result i32)
    i32.const 20
  )
  (func $c (;3;) (type $get) (result i32)
    i32.const 30
  )
  (func $say (;4;) (type 1) (param $n i32)
    (local i32 i32 i32)
    local.get $n
    local.tee 1
    i32.const 5640
    local.get 1
    call $whamm.fid_get
    local.set 2
    i32.const 5648
    i32.const 6
    call $whamm.puts
    local.get 2
    local.set 3
    local.get 3
    i64.extend_i32_s
    call $whamm.put_i64
    i32.const 5654
    i32.const 1
    call $whamm.puts
    call $"#func12 whamm.flush"
    call_indirect (type $get)
    call $log
  )
  (func $through (;5;) (type 2) (param $f funcref)
    (local funcref i32 i32 funcref)
    i32.const 1
    local.get $f
    local.tee 1
    i32.const -1
    local.set 2
    i32.const 5655
    i32.const 5
    call $whamm.puts
    local.get 2
    local.set 3
    local.get 3
    i64.extend_i32_s
    call $whamm.put_i64
    i32.const 5654
    i32.const 1
    call $whamm.puts
    call $"#func12 whamm.flush"
    local.set 4
    local.set 2
    local.get 2
    local.get 4
    table.set $t
    i32.const 5640
    local.get 2
    i32.const -1
    i32.const 1
    call $whamm.fid_fill
  )
  (func (;6;) (type 3)
    (local funcref i32 i32 funcref i32 i32)
    i32.const 0
    call $say
    i32.const 1
    call $say
    i32.const 2
    ref.func $c
    local.tee 0
    i32.const 3
    local.set 1
    i32.const 5655
    i32.const 5
    call $whamm.puts
    local.get 1
    local.set 2
    local.get 2
    i64.extend_i32_s
    call $whamm.put_i64
    i32.const 5654
    i32.const 1
    call $whamm.puts
    call $"#func12 whamm.flush"
    local.set 3
    local.set 1
    local.get 1
    local.get 3
    table.set $t
    i32.const 5640
    local.get 1
    i32.const 3
    i32.const 1
    call $whamm.fid_fill
    i32.const 2
    call $say
    i32.const 3
    i32.const 0
    local.tee 1
    i32.const 5640
    local.get 1
    call $whamm.fid_get
    local.set 2
    i32.const 5660
    i32.const 5
    call $whamm.puts
    local.get 2
    local.set 4
    local.get 4
    i64.extend_i32_s
    call $whamm.put_i64
    i32.const 5654
    i32.const 1
    call $whamm.puts
    call $"#func12 whamm.flush"
    local.set 2
    local.get 2
    table.get $t
    i32.const 5640
    local.get 2
    call $whamm.fid_get
    local.set 5
    local.tee 3
    local.get 5
    local.set 2
    i32.const 5655
    i32.const 5
    call $whamm.puts
    local.get 2
    local.set 1
    local.get 1
    i64.extend_i32_s
    call $whamm.put_i64
    i32.const 5654
    i32.const 1
    call $whamm.puts
    call $"#func12 whamm.flush"
    local.set 0
    local.set 2
    local.get 2
    local.get 0
    table.set $t
    i32.const 5640
    local.get 2
    local.get 5
    i32.const 1
    call $whamm.fid_fill
    i32.const 3
    call $say
    ref.func $b
    i32.const 2
    local.set 2
    local.set 0
    local.get 0
    local.get 2
    table.grow $t
    local.tee 1
    local.get 1
    i32.const -1
    i32.ne
    if ;; label = @1
      i32.const 5640
      local.get 1
      i32.const 2
      local.get 2
      call $whamm.fid_fill
    end
    drop
    i32.const 5
    call $say
    i32.const 4
    ref.func $a
    i32.const 2
    local.set 1
    local.set 0
    local.set 2
    local.get 2
    local.get 0
    local.get 1
    table.fill $t
    i32.const 5640
    local.get 2
    i32.const 1
    local.get 1
    call $whamm.fid_fill
    i32.const 5
    call $say
    i32.const 0
    i32.const 1
    i32.const 2
    local.set 2
    local.set 1
    local.set 4
    local.get 4
    local.get 1
    local.get 2
    table.init $p
    i32.const 5640
    local.get 4
    i32.const 5668
    i32.const 3
    local.get 1
    local.get 2
    call $whamm.fid_init
    elem.drop $p
    i32.const 0
    call $say
    i32.const 0
    i32.const 1
    i32.const 1
    local.set 4
    local.set 1
    local.set 2
    local.get 2
    local.get 1
    local.get 4
    table.copy $t $u
    i32.const 5640
    local.get 2
    i32.const 5688
    local.get 1
    local.get 4
    call $whamm.fid_copy
    i32.const 0
    call $say
    i32.const 1
    i32.const 0
    i32.const 3
    local.set 2
    local.set 1
    local.set 4
    local.get 4
    local.get 1
    local.get 2
    table.copy
    i32.const 5640
    local.get 4
    i32.const 5640
    local.get 1
    local.get 2
    call $whamm.fid_copy
    i32.const 1
    call $say
    i32.const 3
    call $say
    ref.func $b
    call $through
    i32.const 1
    call $say
  )
  (func $"#func12 whamm.flush" (@name "whamm.flush") (;12;) (type 4)
    (local i32)
    global.get 0
    local.set 0
    i32.const 0
    global.set 0
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
