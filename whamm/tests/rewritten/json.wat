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
    block ;; label = @1
      block ;; label = @2
        block ;; label = @3
          block ;; label = @4
            local.get $n
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
    block (result i32) ;; label = @1
      i32.const 5
      local.get $n
      i32.eqz
      br_if 0 (;@1;)
      drop
      i32.const 6
    end
  )
  (func $tail (;5;) (type 2) (param $n i32) (result i32)
    local.get $n
    i32.eqz
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
    (local $i i32) (local $f f64) (local i32 f32 i32 i32 i32 i32 i32 f32 i32 i32 i32)
    i32.const 9
    i32.const 4
    i32.const 1
    local.tee 2
    global.get 8
    i64.const 1
    i64.add
    global.set 8
    f32.const 0x1.99999ap-4 (;=0.1;)
    local.set 3
    i32.const 5640
    local.set 4
    local.get 2
    i32.const 5731
    i32.const 13
    local.set 7
    local.set 6
    local.set 5
    i32.const 0
    local.get 5
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 6
    local.get 7
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    i32.const 0
    local.get 7
    i64.extend_i32_u
    i64.store 1 offset=32 align=4
    local.get 4
    call $whamm.map_get
    local.set 8
    local.get 3
    local.set 9
    local.get 8
    local.get 9
    f32.store 1
    f64.const inf (;=inf;)
    global.set 4
    i32.const 255
    i32.const 1
    i64.const -9223372036854775808
    global.set 7
    global.set 6
    global.set 5
    call_indirect (type $bin)
    call $log
    i32.const 9
    i32.const 4
    i32.const 2
    local.tee 2
    global.get 10
    i64.const 1
    i64.add
    global.set 10
    f32.const 0x1.99999ap-4 (;=0.1;)
    local.set 9
    i32.const 5640
    local.set 8
    local.get 2
    i32.const 5731
    i32.const 13
    local.set 12
    local.set 11
    local.set 10
    i32.const 0
    local.get 10
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 11
    local.get 12
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    i32.const 0
    local.get 12
    i64.extend_i32_u
    i64.store 1 offset=32 align=4
    local.get 8
    call $whamm.map_get
    local.set 4
    local.get 9
    local.set 3
    local.get 4
    local.get 3
    f32.store 1
    f64.const inf (;=inf;)
    global.set 4
    i32.const 255
    i32.const 1
    i64.const -9223372036854775808
    global.set 7
    global.set 6
    global.set 5
    call_indirect (type $bin)
    call $log
    loop ;; label = @1
      local.get $i
      call $switch
      call $log
      local.get $i
      i32.const 1
      i32.add
      local.set $i
      local.get $i
      i32.const 5
      i32.lt_u
      br_if 0 (;@1;)
    end
    i32.const 0
    call $out
    call $log
    i32.const 1
    call $out
    call $log
    i32.const 3
    call $tail
    call $log
    i32.const 77
    call $multi
    global.set $g
    call $log
    f64.const 0x1p+0 (;=1;)
    f64.const 0x1.8p+1 (;=3;)
    f64.div
    local.set $f
    local.get $f
    f64.const 0x1.ep+4 (;=30;)
    f64.mul
    i32.trunc_f64_s
    call $log
    i32.const 7
    i32.const 2
    i32.div_s
    call $log
    i32.const 1
    memory.grow
    call $log
    i32.const 64
    i32.const 1
    i32.const 4
    memory.fill
    i32.const 5
    i32.load8_u offset=60
    call $log
    i32.const 80
    i64.const 123456789
    i64.store32
    i32.const 80
    i32.load
    i32.const 1
    i32.const 1
    select
    call $log
  )
  (func $"#func23 whamm.flush" (@name "whamm.flush") (;23;) (type 5)
    (local i32)
    global.get 11
    local.set 0
    i32.const 0
    global.set 11
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
