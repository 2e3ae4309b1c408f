  (func $add (;1;) (type $bin) (param i32 i32) (result i32)
    (local i32 i64 i32)
    i64.const 10
    local.set 3
    i32.const 100
    local.set 4
    local.get 4
    i32.const 1
    i32.add
    local.set 4
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    local.get 0
    local.get 4
    i32.const 1
    i32.add
    local.set 4
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    local.get 1
    i32.add
    global.get 3
    local.get 2
    i32.add
    global.set 3
    global.get 4
    local.get 4
    i32.add
    global.set 4
  )
  (func $sub (;2;) (type $bin) (param i32 i32) (result i32)
    (local i32 i64 i32)
    i64.const 10
    local.set 3
    i32.const 100
    local.set 4
    local.get 4
    i32.const 1
    i32.add
    local.set 4
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    local.get 0
    local.get 4
    i32.const 1
    i32.add
    local.set 4
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    local.get 1
    i32.sub
    global.get 5
    local.get 2
    i32.add
    global.set 5
    global.get 6
    local.get 4
    i32.add
    global.set 6
  )
  (func $switch (;3;) (type 2) (param $n i32) (result i32)
    (local i32 i64 i32)
    i64.const 10
    local.set 2
    i32.const 100
    local.set 3
    block ;; label = @1
      block ;; label = @2
        block ;; label = @3
          block ;; label = @4
            local.get 3
            i32.const 1
            i32.add
            local.set 3
            global.get 2
            i32.const 1
            i32.add
            global.set 2
            local.get $n
            br_table 0 (;@4;) 1 (;@3;) 2 (;@2;) 3 (;@1;)
          end
          i32.const 10
          global.get 7
          local.get 1
          i32.add
          global.set 7
          global.get 8
          local.get 3
          i32.add
          global.set 8
          return
        end
        i32.const 20
        global.get 7
        local.get 1
        i32.add
        global.set 7
        global.get 8
        local.get 3
        i32.add
        global.set 8
        return
      end
      i32.const 30
      global.get 7
      local.get 1
      i32.add
      global.set 7
      global.get 8
      local.get 3
      i32.add
      global.set 8
      return
    end
    i32.const 40
    global.get 7
    local.get 1
    i32.add
    global.set 7
    global.get 8
    local.get 3
    i32.add
    global.set 8
  )
  (func $out (;4;) (type 2) (param $n i32) (result i32)
    (local i32 i64 i32)
    i64.const 10
    local.set 2
    i32.const 100
    local.set 3
    block (result i32) ;; label = @1
      i32.const 5
      local.get 3
      i32.const 1
      i32.add
      local.set 3
      global.get 2
      i32.const 1
      i32.add
      global.set 2
      local.get $n
      i32.eqz
      br_if 0 (;@1;)
      drop
      i32.const 6
    end
    global.get 9
    local.get 1
    i32.add
    global.set 9
    global.get 10
    local.get 3
    i32.add
    global.set 10
  )
  (func $tail (;5;) (type 2) (param $n i32) (result i32)
    (local i32 i64 i32)
    i64.const 10
    local.set 2
    i32.const 100
    local.set 3
    local.get 3
    i32.const 1
    i32.add
    local.set 3
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    local.get $n
    i32.eqz
    if ;; label = @1
      i32.const 0
      global.get 11
      local.get 1
      i32.add
      global.set 11
      global.get 12
      local.get 3
      i32.add
      global.set 12
      return
    end
    local.get 3
    i32.const 1
    i32.add
    local.set 3
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    local.get $n
    i32.const 1
    i32.sub
    local.get 1
    i32.const 1
    i32.add
    local.set 1
    local.get 2
    i64.const 1
    i64.add
    local.set 2
    local.get 2
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 2
      global.set 1
    end
    global.get 11
    local.get 1
    i32.add
    global.set 11
    global.get 12
    local.get 3
    i32.add
    global.set 12
    return_call $tail
  )
  (func $multi (;6;) (type 3) (param i32) (result i32 i64)
    (local i32 i64 i32)
    i64.const 10
    local.set 2
    i32.const 100
    local.set 3
    local.get 3
    i32.const 1
    i32.add
    local.set 3
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    local.get 0
    global.get $g
    global.get 13
    local.get 1
    i32.add
    global.set 13
    global.get 14
    local.get 3
    i32.add
    global.set 14
  )
  (func (;7;) (type 4)
    (local $i i32) (local $f f64) (local i32 i64 i32)
    i64.const 10
    local.set 3
    i32.const 100
    local.set 4
    i32.const 9
    i32.const 4
    i32.const 1
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call_indirect (type $bin)
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    i32.const 9
    i32.const 4
    i32.const 2
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call_indirect (type $bin)
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    loop ;; label = @1
      local.get 4
      i32.const 1
      i32.add
      local.set 4
      global.get 2
      i32.const 1
      i32.add
      global.set 2
      local.get $i
      local.get 2
      i32.const 1
      i32.add
      local.set 2
      local.get 3
      i64.const 1
      i64.add
      local.set 3
      local.get 3
      global.get 1
      i64.gt_u
      if ;; label = @2
        local.get 3
        global.set 1
      end
      call $switch
      local.get 2
      i32.const 1
      i32.add
      local.set 2
      local.get 3
      i64.const 1
      i64.add
      local.set 3
      local.get 3
      global.get 1
      i64.gt_u
      if ;; label = @2
        local.get 3
        global.set 1
      end
      call $log
      local.get 4
      i32.const 1
      i32.add
      local.set 4
      global.get 2
      i32.const 1
      i32.add
      global.set 2
      local.get $i
      i32.const 1
      i32.add
      local.set $i
      local.get 4
      i32.const 1
      i32.add
      local.set 4
      global.get 2
      i32.const 1
      i32.add
      global.set 2
      local.get $i
      i32.const 5
      i32.lt_u
      br_if 0 (;@1;)
    end
    i32.const 0
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $out
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    i32.const 1
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $out
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    i32.const 3
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $tail
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    i32.const 77
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $multi
    global.set $g
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    f64.const 0x1p+0 (;=1;)
    f64.const 0x1.8p+1 (;=3;)
    f64.div
    local.set $f
    local.get 4
    i32.const 1
    i32.add
    local.set 4
    global.get 2
    i32.const 1
    i32.add
    global.set 2
    local.get $f
    f64.const 0x1.ep+4 (;=30;)
    f64.mul
    i32.trunc_f64_s
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    i32.const 7
    i32.const 2
    i32.div_s
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    i32.const 1
    memory.grow
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    i32.const 64
    i32.const 1
    i32.const 4
    memory.fill
    i32.const 5
    i32.load8_u offset=60
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    i32.const 80
    i64.const 123456789
    i64.store32
    i32.const 80
    i32.load
    i32.const 1
    i32.const 1
    select
    local.get 2
    i32.const 1
    i32.add
    local.set 2
    local.get 3
    i64.const 1
    i64.add
    local.set 3
    local.get 3
    global.get 1
    i64.gt_u
    if ;; label = @1
      local.get 3
      global.set 1
    end
    call $log
    global.get 15
    local.get 2
    i32.add
    global.set 15
    global.get 16
    local.get 4
    i32.add
    global.set 16
  )
  (func $"#func12 whamm.flush" (@name "whamm.flush") (;12;) (type 5)
    (local i32)
    global.get 17
    local.set 0
    i32.const 0
    global.set 17
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
