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
    (local i32)
    global.get 0
    i32.const 10
    i32.add
    i32.const 255
    i32.and
    global.set 0
    global.get 1
    i32.const 1
    i32.add
    i32.extend8_s
    global.set 1
    global.get 2
    i32.const 2
    i32.mul
    i32.const 65535
    i32.and
    global.set 2
    global.get 3
    i32.const 1
    i32.sub
    i32.extend16_s
    global.set 3
    global.get 3
    i32.const 3
    i32.shr_s
    i32.extend16_s
    global.set 3
    i32.const -1
    global.set 4
    i32.const -3
    global.set 5
    i64.const -1
    global.set 6
    i64.const -1
    global.set 7
    f32.const 0x1.8p+0 (;=1.5;)
    global.set 8
    f64.const -0x0p+0 (;=-0;)
    global.set 9
    i32.const 0
    local.set 0
    local.get 0
    i32.const 0
    i32.ne
    if (result i32) ;; label = @1
      i32.const 10
      local.get 0
      i32.div_s
      i32.const 1
      i32.gt_s
    else
      i32.const 0
    end
    local.get 0
    i32.const 0
    i32.eq
    i32.or
    global.set 10
    i32.const 15
    global.set 11
    i32.const 3
    i32.const 44
    f32.const 0x1.cp+2 (;=7;)
    i32.const 1
    i64.const -1
    global.set 16
    global.set 15
    global.set 14
    global.set 13
    global.set 12
    local.get 0
    i32.const 0
    i32.eq
    if (result i32) ;; label = @1
      i32.const 1
      i32.const 2
      local.get 0
      i32.const 1
      i32.eq
      select
    else
      i32.const 3
    end
    global.set 17
    f32.const 0x1.555556p-2 (;=0.33333334;)
    global.set 20
    f64.const -nan (;=NaN;)
    global.set 22
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
  (func $"#func7 whamm.flush" (@name "whamm.flush") (;7;) (type 3)
    (local i32)
    global.get 25
    local.set 0
    i32.const 0
    global.set 25
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
