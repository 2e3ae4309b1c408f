  (func $sum (;1;) (type 1) (param i32 i32) (result i32)
    local.get 0
    local.get 1
    i32.add
  )
  (func $pair (;2;) (type 2) (param i32) (result i32 i64)
    local.get 0
    i64.const 4
  )
  (func $keep (;3;) (type 3) (param i32) (result i32)
    i32.const 99
  )
  (func $note (;4;) (type 4) (param i32 i32))
  (func $one (;5;) (type 5) (result i32)
    i32.const 1
  )
  (func $nothing (;6;) (type 6))
  (func $arm (;7;) (type 3) (param i32) (result i32)
    (local i32)
    local.get 0
    if (result i32) ;; label = @1
      i32.const 70
    else
      block ;; label = @2
        i32.const 77
        local.set 1
        br 0 (;@2;)
      end
      local.get 1
    end
  )
  (func $blocks (;8;) (type 5) (result i32)
    (local i32)
    block ;; label = @1
      i32.const 11
      local.set 0
      br 0 (;@1;)
    end
    local.get 0
  )
  (func $choice (;9;) (type 7) (param i32) (result i32 i32)
    (local i32 i32 i32)
    local.get 0
    local.set 1
    block ;; label = @1
      i32.const 12
      i32.const 13
      local.set 3
      local.set 2
      br 0 (;@1;)
    end
    local.get 2
    local.get 3
  )
  (func $loops (;10;) (type 5) (result i32)
    global.get 0
    i32.const 1000
    i32.add
    global.set 0
    i32.const 60
  )
  (func $jump (;11;) (type 3) (param i32) (result i32)
    (local i32 i32)
    block (result i32) ;; label = @1
      i32.const 40
      local.get 0
      local.set 1
      local.set 2
      local.get 1
      i32.const 3
      i32.eq
      if (result i32) ;; label = @2
        global.get 0
        i32.const 10000
        i32.add
        global.set 0
        local.get 2
      else
        local.get 2
        local.get 1
        br_if 1 (;@1;)
      end
      drop
      i32.const 41
    end
  )
  (func $back (;12;) (type 3) (param i32) (result i32)
    (local i32)
    local.get 0
    i32.const 30
    i32.add
    local.set 1
    local.get 0
    i32.const 4
    i32.eq
    if (result i32) ;; label = @1
      global.get 0
      i32.const 100000
      i32.add
      global.set 0
      local.get 1
    else
      local.get 1
      return
    end
  )
  (func $stop (;13;) (type 6)
    global.get 0
    i32.const 1000000
    i32.add
    global.set 0
  )
  (func $show (;14;) (type 0) (param i32)
    local.get 0
    call $log
  )
  (func (;15;) (type 6)
    (local i32 i64 f32 f64 i32 i32)
    block ;; label = @1
      i32.const 1
      local.set 0
      br 0 (;@1;)
    end
    local.get 0
    call $show
    block ;; label = @1
      i64.const 2
      local.set 1
      br 0 (;@1;)
    end
    local.get 1
    i32.wrap_i64
    call $show
    block ;; label = @1
      f32.const 0x1.8p+1 (;=3;)
      local.set 2
      br 0 (;@1;)
    end
    local.get 2
    i32.trunc_f32_s
    call $show
    block ;; label = @1
      f64.const 0x1.8p+0 (;=1.5;)
      local.set 3
      br 0 (;@1;)
    end
    local.get 3
    block ;; label = @1
      f64.const 0x1.8p+0 (;=1.5;)
      local.set 3
      br 0 (;@1;)
    end
    local.get 3
    f64.mul
    i32.trunc_f64_s
    call $show
    i32.const 0
    i32.const 5
    local.set 0
    local.set 4
    local.get 4
    i32.const 0
    i32.eq
    if (result i32) ;; label = @1
      block ;; label = @2
        local.get 0
        global.set 0
        local.get 0
        i32.const 100
        i32.mul
        local.set 5
        br 0 (;@2;)
      end
      local.get 5
    else
      local.get 4
      local.get 0
      call $sum
    end
    call $show
    i32.const 2
    i32.const 5
    local.set 5
    local.set 4
    local.get 4
    i32.const 0
    i32.eq
    if (result i32) ;; label = @1
      block ;; label = @2
        local.get 5
        global.set 0
        local.get 5
        i32.const 100
        i32.mul
        local.set 0
        br 0 (;@2;)
      end
      local.get 0
    else
      local.get 4
      local.get 5
      call $sum
    end
    call $show
    i32.const 6
    local.set 0
    local.get 0
    i32.const 6
    i32.eq
    if (type 10) (result i32 i64) ;; label = @1
      block ;; label = @2
        local.get 0
        i32.const 1
        i32.add
        local.get 0
        i64.extend_i32_s
        i64.const 2
        i64.add
        local.set 1
        local.set 4
        br 0 (;@2;)
      end
      local.get 4
      local.get 1
    else
      local.get 0
      call $pair
    end
    i32.wrap_i64
    call $show
    call $show
    i32.const 7
    local.set 4
    local.get 4
    i32.const 6
    i32.eq
    if (type 10) (result i32 i64) ;; label = @1
      block ;; label = @2
        local.get 4
        i32.const 1
        i32.add
        local.get 4
        i64.extend_i32_s
        i64.const 2
        i64.add
        local.set 1
        local.set 0
        br 0 (;@2;)
      end
      local.get 0
      local.get 1
    else
      local.get 4
      call $pair
    end
    i32.wrap_i64
    call $show
    call $show
    i32.const 17
    local.set 0
    global.get 0
    i32.const 1
    i32.add
    global.set 0
    local.get 0
    call $show
    i32.const 20
    i32.const 21
    local.set 0
    local.set 4
    global.get 0
    local.get 4
    i32.add
    global.set 0
    i32.const 0
    local.set 4
    block ;; label = @1
      i32.const 5
      local.set 0
      br 0 (;@1;)
    end
    local.get 0
    call $show
    i32.const 3
    i32.const 4
    local.set 0
    local.set 4
    global.get 0
    local.get 0
    i32.add
    global.set 0
    local.get 4
    call $show
    block ;; label = @1
      call $nothing
      i32.const -1
      local.set 4
      br 0 (;@1;)
    end
    local.get 4
    call $show
    i32.const 1
    call $arm
    call $show
    i32.const 0
    call $arm
    call $show
    call $blocks
    call $show
    i32.const 1
    call $choice
    call $show
    call $show
    call $loops
    call $show
    i32.const 3
    call $jump
    call $show
    i32.const 2
    call $jump
    call $show
    i32.const 0
    call $jump
    call $show
    i32.const 4
    call $back
    call $show
    i32.const 2
    call $back
    call $show
    call $stop
    call $stop
  )
  (func $"#func20 whamm.flush" (@name "whamm.flush") (;20;) (type 9)
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
