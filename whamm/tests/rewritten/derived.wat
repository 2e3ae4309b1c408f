  (func $add (;1;) (type $bin) (param i32 i32) (result i32)
    local.get 0
    local.get 1
    i32.add
  )
  (func $sub (;2;) (type $bin) (param i32 i32) (result i32)
    local.get 0
    local.get 1
    i32.sub
  )
  (func $switch (;3;) (type 2) (param $n i32) (result i32)
    (local i32 i32)
    block ;; label = @1
      block ;; label = @2
        block ;; label = @3
          block ;; label = @4
            local.get $n
            local.tee 1
            local.get 1
            i32.const 3
            local.get 1
            i32.const 3
            i32.lt_u
            select
            i32.const 2
            i32.lt_u
            if ;; label = @5
              local.get 1
              i32.const 3
              local.get 1
              i32.const 3
              i32.lt_u
              select
              i32.const 3
              i32.shl
              local.tee 2
              local.get 2
              i64.load 1 offset=5784 align=4
              i64.const 1
              i64.add
              i64.store 1 offset=5784 align=4
              i32.const 3
              global.set 1
              i32.const 3
              global.set 2
              i32.const 1
              global.set 3
            end
            br_table 0 (;@4;) 1 (;@3;) 2 (;@2;) 3 (;@1;)
          end
          i32.const 10
          return
        end
        i32.const 20
        return
      end
      i32.const 30
      return
    end
    i32.const 40
  )
  (func $out (;4;) (type 2) (param $n i32) (result i32)
    (local i32)
    block (result i32) ;; label = @1
      i32.const 5
      local.get $n
      i32.eqz
      local.tee 1
      local.get 1
      i32.const 0
      i32.ne
      if ;; label = @2
        global.get 4
        i32.const 1
        i32.add
        global.set 4
      end
      br_if 0 (;@1;)
      drop
      i32.const 6
    end
  )
  (func $tail (;5;) (type 2) (param $n i32) (result i32)
    (local i32)
    local.get $n
    i32.eqz
    local.tee 1
    local.get 1
    i32.const 0
    i32.ne
    if ;; label = @1
      global.get 5
      i32.const 1
      i32.add
      global.set 5
    end
    if ;; label = @1
      i32.const 0
      return
    end
    local.get $n
    i32.const 1
    i32.sub
    return_call $tail
  )
  (func $multi (;6;) (type 3) (param i32) (result i32 i64)
    local.get 0
    global.get $g
  )
  (func (;7;) (type 4)
    (local $i i32) (local $f f64) (local i32 i32 f64 i64)
    i32.const 9
    i32.const 4
    i32.const 1
    local.tee 2
    local.get 2
    i32.const 3
    i32.lt_u
    if (result i32) ;; label = @1
      local.get 2
      i32.const 2
      i32.shl
      i32.load 1 offset=5908
      i32.const 1
      i32.sub
    else
      i32.const -1
    end
    local.set 3
    local.get 3
    i32.const 2
    i32.eq
    if ;; label = @1
      local.get 3
      global.set 6
      local.get 2
      global.set 7
    end
    call_indirect (type $bin)
    i32.const 5969
    i32.const 3
    global.set 9
    global.set 8
    i32.const 0
    global.set 10
    i32.const 4
    global.set 11
    call $log
    i32.const 9
    i32.const 4
    i32.const 2
    local.tee 2
    local.get 2
    i32.const 3
    i32.lt_u
    if (result i32) ;; label = @1
      local.get 2
      i32.const 2
      i32.shl
      i32.load 1 offset=5908
      i32.const 1
      i32.sub
    else
      i32.const -1
    end
    local.set 3
    local.get 3
    i32.const 2
    i32.eq
    if ;; label = @1
      local.get 3
      global.set 12
      local.get 2
      global.set 13
    end
    call_indirect (type $bin)
    i32.const 5969
    i32.const 3
    global.set 15
    global.set 14
    i32.const 0
    global.set 16
    i32.const 9
    global.set 17
    call $log
    loop ;; label = @1
      local.get $i
      call $switch
      i32.const 5969
      i32.const 3
      global.set 19
      global.set 18
      i32.const 0
      global.set 20
      i32.const 13
      global.set 21
      call $log
      local.get $i
      i32.const 1
      i32.add
      local.set $i
      local.get $i
      i32.const 5
      i32.lt_u
      local.tee 2
      local.get 2
      i32.const 0
      i32.ne
      if ;; label = @2
        global.get 22
        i32.const 1
        i32.add
        global.set 22
      end
      br_if 0 (;@1;)
    end
    i32.const 0
    call $out
    i32.const 5969
    i32.const 3
    global.set 24
    global.set 23
    i32.const 0
    global.set 25
    i32.const 25
    global.set 26
    call $log
    i32.const 1
    call $out
    i32.const 5969
    i32.const 3
    global.set 28
    global.set 27
    i32.const 0
    global.set 29
    i32.const 28
    global.set 30
    call $log
    i32.const 3
    call $tail
    i32.const 5969
    i32.const 3
    global.set 32
    global.set 31
    i32.const 0
    global.set 33
    i32.const 31
    global.set 34
    call $log
    i32.const 77
    call $multi
    global.set $g
    i32.const 5969
    i32.const 3
    global.set 36
    global.set 35
    i32.const 0
    global.set 37
    i32.const 35
    global.set 38
    call $log
    f64.const 0x1p+0 (;=1;)
    f64.const 0x1.8p+1 (;=3;)
    global.get 39
    i32.const 1
    i32.add
    global.set 39
    f64.div
    local.set $f
    local.get $f
    f64.const 0x1.ep+4 (;=30;)
    f64.mul
    local.tee 4
    local.get 4
    f64.const -0x1.00000002p+31 (;=-2147483649;)
    f64.gt
    local.get 4
    f64.const 0x1p+31 (;=2147483648;)
    f64.lt
    i32.and
    i32.eqz
    i32.eqz
    if ;; label = @1
      global.get 40
      i32.const 1
      i32.add
      global.set 40
    end
    i32.trunc_f64_s
    i32.const 5969
    i32.const 3
    global.set 42
    global.set 41
    i32.const 0
    global.set 43
    i32.const 44
    global.set 44
    call $log
    i32.const 7
    i32.const 2
    local.set 2
    local.tee 3
    local.get 2
    local.get 2
    i32.const 0
    i32.eq
    local.get 2
    i32.const -1
    i32.eq
    local.get 3
    i32.const -2147483648
    i32.eq
    i32.and
    i32.or
    i32.eqz
    if ;; label = @1
      global.get 45
      i32.const 1
      i32.add
      global.set 45
    end
    i32.div_s
    i32.const 5969
    i32.const 3
    global.set 47
    global.set 46
    i32.const 0
    global.set 48
    i32.const 48
    global.set 49
    call $log
    i32.const 1
    memory.grow
    i32.const 5969
    i32.const 3
    global.set 51
    global.set 50
    i32.const 0
    global.set 52
    i32.const 51
    global.set 53
    call $log
    i32.const 64
    i32.const 1
    i32.const 4
    memory.fill
    i32.const 5
    local.tee 3
    memory.size
    i64.extend_i32_u
    i64.const 16
    i64.shl
    local.set 5
    local.get 3
    i64.extend_i32_u
    i64.const 60
    i64.add
    i64.const 1
    i64.add
    local.get 5
    i64.gt_u
    i32.eqz
    if ;; label = @1
      global.get 54
      i32.const 1
      i32.add
      global.set 54
    end
    local.get 3
    i32.const 60
    i32.add
    i32.const 64
    i32.ge_u
    if ;; label = @1
      local.get 3
      i32.const 60
      i32.add
      global.set 55
      i32.const 1
      global.set 56
      i32.const 0
      global.set 57
      i64.const 60
      global.set 58
      i32.const 1
      global.set 59
      i32.const 0
      global.set 60
    end
    i32.load8_u offset=60
    i32.const 5969
    i32.const 3
    global.set 62
    global.set 61
    i32.const 0
    global.set 63
    i32.const 58
    global.set 64
    call $log
    i32.const 80
    i64.const 123456789
    local.set 5
    local.tee 3
    local.get 5
    local.get 3
    i32.const 64
    i32.ge_u
    if ;; label = @1
      local.get 3
      global.set 65
      i32.const 4
      global.set 66
      i32.const 1
      global.set 67
      i64.const 0
      global.set 68
      i32.const 4
      global.set 69
      i32.const 0
      global.set 70
    end
    i64.store32
    i32.const 80
    local.tee 3
    memory.size
    i64.extend_i32_u
    i64.const 16
    i64.shl
    local.set 5
    local.get 3
    i64.extend_i32_u
    i64.const 4
    i64.add
    local.get 5
    i64.gt_u
    i32.eqz
    if ;; label = @1
      global.get 71
      i32.const 1
      i32.add
      global.set 71
    end
    local.get 3
    i32.const 64
    i32.ge_u
    if ;; label = @1
      local.get 3
      global.set 72
      i32.const 4
      global.set 73
      i32.const 0
      global.set 74
      i64.const 0
      global.set 75
      i32.const 4
      global.set 76
      i32.const 0
      global.set 77
    end
    i32.load
    i32.const 1
    i32.const 1
    select
    i32.const 5969
    i32.const 3
    global.set 79
    global.set 78
    i32.const 0
    global.set 80
    i32.const 67
    global.set 81
    call $log
  )
  (func $"#func21 whamm.flush" (@name "whamm.flush") (;21;) (type 5)
    (local i32)
    global.get 83
    local.set 0
    i32.const 0
    global.set 83
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
