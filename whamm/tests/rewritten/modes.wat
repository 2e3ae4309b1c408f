  (func $add (;1;) (type $bin) (param i32 i32) (result i32)
    global.get 1
    i32.const 1
    i32.add
    global.set 1
    local.get 0
    local.get 1
    i32.add
    global.get 2
    i32.const 1
    i32.add
    global.set 2
  )
  (func $sub (;2;) (type $bin) (param i32 i32) (result i32)
    global.get 3
    i32.const 1
    i32.add
    global.set 3
    local.get 0
    local.get 1
    i32.sub
    global.get 4
    i32.const 1
    i32.add
    global.set 4
  )
  (func $switch (;3;) (type 2) (param $n i32) (result i32)
    global.get 5
    i32.const 1
    i32.add
    global.set 5
    block ;; label = @1
      global.get 8
      i32.const 1
      i32.add
      global.set 8
      block ;; label = @2
        global.get 11
        i32.const 1
        i32.add
        global.set 11
        block ;; label = @3
          global.get 14
          i32.const 1
          i32.add
          global.set 14
          block ;; label = @4
            global.get 17
            i32.const 1
            i32.add
            global.set 17
            local.get $n
            global.get 18
            i32.const 1
            i32.add
            global.set 18
            br_table 0 (;@4;) 1 (;@3;) 2 (;@2;) 3 (;@1;)
          end
          global.get 19
          i32.const 1
          i32.add
          global.set 19
          global.get 16
          i32.const 1
          i32.add
          global.set 16
          i32.const 10
          global.get 20
          i32.const 1
          i32.add
          global.set 20
          return
        end
        global.get 21
        i32.const 1
        i32.add
        global.set 21
        global.get 13
        i32.const 1
        i32.add
        global.set 13
        i32.const 20
        global.get 22
        i32.const 1
        i32.add
        global.set 22
        return
      end
      global.get 23
      i32.const 1
      i32.add
      global.set 23
      global.get 10
      i32.const 1
      i32.add
      global.set 10
      i32.const 30
      global.get 24
      i32.const 1
      i32.add
      global.set 24
      return
    end
    global.get 25
    i32.const 1
    i32.add
    global.set 25
    global.get 7
    i32.const 1
    i32.add
    global.set 7
    i32.const 40
    global.get 26
    i32.const 1
    i32.add
    global.set 26
  )
  (func $out (;4;) (type 2) (param $n i32) (result i32)
    (local i32)
    block (result i32) ;; label = @1
      global.get 27
      i32.const 1
      i32.add
      global.set 27
      i32.const 5
      local.get $n
      i32.eqz
      local.tee 1
      local.get 1
      if ;; label = @2
        global.get 28
        i32.const 1
        i32.add
        global.set 28
      end
      br_if 0 (;@1;)
      global.get 29
      i32.const 1
      i32.add
      global.set 29
      global.get 30
      i32.const 1
      i32.add
      global.set 30
      drop
      i32.const 6
    end
    global.get 31
    i32.const 1
    i32.add
    global.set 31
    global.get 32
    i32.const 1
    i32.add
    global.set 32
  )
  (func $tail (;5;) (type 2) (param $n i32) (result i32)
    global.get 33
    i32.const 1
    i32.add
    global.set 33
    local.get $n
    i32.eqz
    if ;; label = @1
      global.get 36
      i32.const 1
      i32.add
      global.set 36
      global.get 37
      i32.const 1
      i32.add
      global.set 37
      i32.const 0
      global.get 38
      i32.const 1
      i32.add
      global.set 38
      return
    end
    global.get 39
    i32.const 1
    i32.add
    global.set 39
    global.get 35
    i32.const 1
    i32.add
    global.set 35
    local.get $n
    i32.const 1
    i32.sub
    global.get 40
    i32.const 1
    i32.add
    global.set 40
    return_call $tail
  )
  (func $multi (;6;) (type 3) (param i32) (result i32 i64)
    global.get 44
    i32.const 1
    i32.add
    global.set 44
    local.get 0
    global.get $g
    global.get 45
    i32.const 1
    i32.add
    global.set 45
  )
  (func (;7;) (type 4)
    (local $i i32) (local $f f64) (local i32 i32)
    global.get 46
    i32.const 1
    i32.add
    global.set 46
    i32.const 9
    i32.const 4
    i32.const 1
    call_indirect (type $bin)
    call $log
    global.get 47
    i32.const 1
    i32.add
    global.set 47
    i32.const 9
    i32.const 4
    i32.const 2
    call_indirect (type $bin)
    call $log
    global.get 48
    i32.const 1
    i32.add
    global.set 48
    loop ;; label = @1
      global.get 51
      i32.const 1
      i32.add
      global.set 51
      global.get 52
      i32.const 1
      i32.add
      global.set 52
      local.get $i
      call $switch
      local.tee 2
      global.get 53
      i32.const 1
      i32.add
      global.set 53
      local.get 2
      global.set 54
      call $log
      global.get 55
      i32.const 1
      i32.add
      global.set 55
      local.get $i
      i32.const 1
      i32.add
      local.set $i
      local.get $i
      i32.const 5
      i32.lt_u
      local.tee 2
      local.get 2
      if ;; label = @2
        global.get 56
        i32.const 1
        i32.add
        global.set 56
      end
      br_if 0 (;@1;)
      global.get 57
      i32.const 1
      i32.add
      global.set 57
      global.get 49
      i32.const 1
      i32.add
      global.set 49
    end
    global.get 58
    i32.const 1
    i32.add
    global.set 58
    global.get 50
    i32.const 1
    i32.add
    global.set 50
    i32.const 0
    call $out
    local.tee 2
    global.get 59
    i32.const 1
    i32.add
    global.set 59
    local.get 2
    global.set 60
    call $log
    global.get 61
    i32.const 1
    i32.add
    global.set 61
    i32.const 1
    call $out
    local.tee 2
    global.get 62
    i32.const 1
    i32.add
    global.set 62
    local.get 2
    global.set 63
    call $log
    global.get 64
    i32.const 1
    i32.add
    global.set 64
    i32.const 3
    call $tail
    local.tee 2
    global.get 65
    i32.const 1
    i32.add
    global.set 65
    local.get 2
    global.set 66
    call $log
    global.get 67
    i32.const 1
    i32.add
    global.set 67
    i32.const 77
    call $multi
    global.get 68
    i32.const 1
    i32.add
    global.set 68
    global.set $g
    call $log
    global.get 69
    i32.const 1
    i32.add
    global.set 69
    f64.const 0x1p+0 (;=1;)
    f64.const 0x1.8p+1 (;=3;)
    f64.div
    local.set $f
    local.get $f
    f64.const 0x1.ep+4 (;=30;)
    f64.mul
    i32.trunc_f64_s
    call $log
    global.get 70
    i32.const 1
    i32.add
    global.set 70
    i32.const 7
    i32.const 2
    i32.div_s
    call $log
    global.get 71
    i32.const 1
    i32.add
    global.set 71
    i32.const 1
    local.tee 2
    memory.grow
    local.tee 3
    local.get 3
    i32.const -1
    i32.eq
    global.set 72
    local.get 2
    global.set 73
    call $log
    global.get 74
    i32.const 1
    i32.add
    global.set 74
    i32.const 64
    i32.const 1
    i32.const 4
    memory.fill
    i32.const 5
    i32.load8_u offset=60
    call $log
    global.get 75
    i32.const 1
    i32.add
    global.set 75
    i32.const 80
    i64.const 123456789
    i64.store32
    i32.const 80
    i32.load
    i32.const 1
    i32.const 1
    select
    call $log
    global.get 76
    i32.const 1
    i32.add
    global.set 76
    global.get 77
    i32.const 1
    i32.add
    global.set 77
    global.get 78
    i32.const 1
    i32.add
    global.set 78
  )
  (func $"#func12 whamm.flush" (@name "whamm.flush") (;12;) (type 5)
    (local i32)
    global.get 79
    local.set 0
    i32.const 0
    global.set 79
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
