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
    (local $i i32) (local $f f64) (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    i32.const 9
    i32.const 4
    i32.const 1
    call_indirect (type $bin)
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 5
    local.set 4
    i32.const 0
    local.get 4
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 5
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 8
    local.set 7
    i32.const 0
    local.get 7
    local.get 8
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 8
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    i32.const 9
    i32.const 4
    i32.const 2
    call_indirect (type $bin)
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 10
    local.set 9
    i32.const 0
    local.get 9
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 10
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 12
    local.set 11
    i32.const 0
    local.get 11
    local.get 12
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 12
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    loop ;; label = @1
      local.get $i
      i32.const 1
      local.set 2
      i32.const 5640
      local.set 3
      i32.const 7
      i32.const 3
      local.set 14
      local.set 13
      i32.const 0
      local.get 13
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 14
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 3
      call $whamm.map_get
      local.set 6
      local.get 6
      local.get 6
      i32.load 1
      local.get 2
      i32.add
      i32.store 1
      i32.const 1
      local.set 6
      i32.const 5736
      local.set 3
      i32.const 5827
      i32.const 6
      local.set 16
      local.set 15
      i32.const 0
      local.get 15
      local.get 16
      call $whamm.intern
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 16
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 3
      call $whamm.map_get
      local.set 2
      local.get 2
      local.get 2
      i32.load 1
      local.get 6
      i32.add
      i32.const 65535
      i32.and
      i32.store 1
      call $switch
      i32.const 1
      local.set 2
      i32.const 5640
      local.set 3
      i32.const 7
      i32.const 0
      local.set 18
      local.set 17
      i32.const 0
      local.get 17
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 18
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 3
      call $whamm.map_get
      local.set 6
      local.get 6
      local.get 6
      i32.load 1
      local.get 2
      i32.add
      i32.store 1
      i32.const 1
      local.set 6
      i32.const 5736
      local.set 3
      i32.const 5824
      i32.const 3
      local.set 20
      local.set 19
      i32.const 0
      local.get 19
      local.get 20
      call $whamm.intern
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 20
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 3
      call $whamm.map_get
      local.set 2
      local.get 2
      local.get 2
      i32.load 1
      local.get 6
      i32.add
      i32.const 65535
      i32.and
      i32.store 1
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
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 4
    local.set 22
    local.set 21
    i32.const 0
    local.get 21
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 22
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5833
    i32.const 3
    local.set 24
    local.set 23
    i32.const 0
    local.get 23
    local.get 24
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 24
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $out
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 26
    local.set 25
    i32.const 0
    local.get 25
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 26
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 28
    local.set 27
    i32.const 0
    local.get 27
    local.get 28
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 28
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    i32.const 1
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 4
    local.set 30
    local.set 29
    i32.const 0
    local.get 29
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 30
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5833
    i32.const 3
    local.set 32
    local.set 31
    i32.const 0
    local.get 31
    local.get 32
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 32
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $out
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 34
    local.set 33
    i32.const 0
    local.get 33
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 34
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 36
    local.set 35
    i32.const 0
    local.get 35
    local.get 36
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 36
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    i32.const 3
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 5
    local.set 38
    local.set 37
    i32.const 0
    local.get 37
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 38
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5836
    i32.const 4
    local.set 40
    local.set 39
    i32.const 0
    local.get 39
    local.get 40
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 40
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $tail
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 42
    local.set 41
    i32.const 0
    local.get 41
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 42
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 44
    local.set 43
    i32.const 0
    local.get 43
    local.get 44
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 44
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    i32.const 77
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 6
    local.set 46
    local.set 45
    i32.const 0
    local.get 45
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 46
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5840
    i32.const 5
    local.set 48
    local.set 47
    i32.const 0
    local.get 47
    local.get 48
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 48
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $multi
    global.set $g
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 50
    local.set 49
    i32.const 0
    local.get 49
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 50
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 52
    local.set 51
    i32.const 0
    local.get 51
    local.get 52
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 52
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    f64.const 0x1p+0 (;=1;)
    f64.const 0x1.8p+1 (;=3;)
    f64.div
    local.set $f
    local.get $f
    f64.const 0x1.ep+4 (;=30;)
    f64.mul
    i32.trunc_f64_s
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 54
    local.set 53
    i32.const 0
    local.get 53
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 54
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 56
    local.set 55
    i32.const 0
    local.get 55
    local.get 56
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 56
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    i32.const 7
    i32.const 2
    i32.div_s
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 58
    local.set 57
    i32.const 0
    local.get 57
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 58
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 60
    local.set 59
    i32.const 0
    local.get 59
    local.get 60
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 60
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    i32.const 1
    memory.grow
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 62
    local.set 61
    i32.const 0
    local.get 61
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 62
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 64
    local.set 63
    i32.const 0
    local.get 63
    local.get 64
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 64
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    i32.const 64
    i32.const 1
    i32.const 4
    memory.fill
    i32.const 5
    i32.load8_u offset=60
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 66
    local.set 65
    i32.const 0
    local.get 65
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 66
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 68
    local.set 67
    i32.const 0
    local.get 67
    local.get 68
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 68
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
    i32.const 80
    i64.const 123456789
    i64.store32
    i32.const 80
    i32.load
    i32.const 1
    i32.const 1
    select
    i32.const 1
    local.set 2
    i32.const 5640
    local.set 3
    i32.const 7
    i32.const 0
    local.set 70
    local.set 69
    i32.const 0
    local.get 69
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 70
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 6
    local.get 6
    local.get 6
    i32.load 1
    local.get 2
    i32.add
    i32.store 1
    i32.const 1
    local.set 6
    i32.const 5736
    local.set 3
    i32.const 5824
    i32.const 3
    local.set 72
    local.set 71
    i32.const 0
    local.get 71
    local.get 72
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 72
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 3
    call $whamm.map_get
    local.set 2
    local.get 2
    local.get 2
    i32.load 1
    local.get 6
    i32.add
    i32.const 65535
    i32.and
    i32.store 1
    call $log
  )
  (func $"#func23 whamm.flush" (@name "whamm.flush") (;23;) (type 5)
    (local i32)
    global.get 2
    local.set 0
    i32.const 0
    global.set 2
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
