  (func $add (;1;) (type $bin) (param i32 i32) (result i32)
    (local i32 i32 i32 i32 i64 i32 i64 i32 i32 i32 i32 f64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    local.get 0
    local.get 1
    local.set 2
    local.tee 3
    local.get 2
    i64.const 2
    local.set 8
    i32.const 5784
    local.set 9
    local.get 2
    local.get 2
    i32.const 1
    i32.gt_s
    local.set 11
    local.set 10
    i32.const 0
    local.get 10
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 11
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 9
    call $whamm.map_get
    local.set 12
    local.get 12
    local.get 12
    i64.load 1 align=4
    local.get 8
    i64.add
    i64.store 1 align=4
    i32.const -1
    local.set 12
    i32.const 5736
    local.set 9
    local.get 2
    f64.convert_i32_s
    f64.const 0x1p+1 (;=2;)
    f64.div
    local.set 13
    i32.const 0
    local.get 13
    i64.reinterpret_f64
    i64.store 1 offset=16 align=4
    local.get 9
    call $whamm.map_get
    local.set 14
    local.get 12
    local.set 15
    local.get 14
    local.get 15
    i32.store 1
    i32.const 1
    local.set 15
    i32.const 5736
    local.set 14
    local.get 3
    f64.convert_i32_s
    f64.neg
    local.set 13
    i32.const 0
    local.get 13
    i64.reinterpret_f64
    i64.store 1 offset=16 align=4
    local.get 14
    call $whamm.map_get
    local.set 9
    local.get 9
    local.get 9
    i32.load 1
    local.get 15
    i32.sub
    i32.extend8_s
    i32.store 1
    i32.const 1
    local.set 9
    i32.const 5688
    local.set 14
    i32.const 5864
    i32.const 7
    local.set 17
    local.set 16
    i32.const 0
    local.get 16
    local.get 17
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 17
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 14
    call $whamm.map_get
    local.set 15
    local.get 15
    i32.load 1
    local.set 12
    local.get 3
    local.set 18
    i32.const 0
    local.get 18
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 12
    call $whamm.map_get
    local.set 19
    local.get 19
    local.get 19
    i32.load 1
    local.get 9
    i32.add
    i32.store 1
    i32.const 5871
    i32.const 3
    local.set 18
    local.set 19
    i32.const 5824
    local.set 12
    local.get 2
    local.set 15
    i32.const 0
    local.get 15
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 12
    call $whamm.map_get
    local.set 14
    local.get 19
    local.get 18
    local.set 9
    local.get 14
    local.get 9
    i32.store 1 offset=8
    local.set 20
    local.get 14
    local.get 20
    i32.store 1
    i32.const 5784
    i32.load 1
    global.set 1
    i64.const 1
    local.set 8
    i32.const 5784
    local.set 20
    i32.const 99
    i32.const 0
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
    local.get 20
    call $whamm.map_get
    local.set 9
    local.get 8
    local.set 23
    local.get 9
    local.get 23
    i64.store 1 align=4
    i32.const 5784
    local.set 9
    i32.const 99
    i32.const 0
    local.set 25
    local.set 24
    i32.const 0
    local.get 24
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 25
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 9
    call $whamm.map_find
    i32.const 0
    i32.ne
    global.set 2
    i32.const 5784
    local.set 9
    i32.const 99
    i32.const 0
    local.set 27
    local.set 26
    i32.const 0
    local.get 26
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 27
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 9
    call $whamm.map_delete
    global.get 2
    if (result i32) ;; label = @1
      i32.const 5784
      local.set 9
      i32.const 99
      i32.const 0
      local.set 29
      local.set 28
      i32.const 0
      local.get 28
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 29
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 9
      call $whamm.map_find
      i32.const 0
      i32.ne
      i32.eqz
    else
      i32.const 0
    end
    global.set 2
    i64.const 0
    global.set 3
    i32.const 5784
    local.tee 30
    i32.load 1
    local.set 32
    local.get 32
    if ;; label = @1
      local.get 30
      call $whamm.map_sorted
      local.set 31
    end
    block ;; label = @1
      loop ;; label = @2
        local.get 32
        i32.eqz
        br_if 1 (;@1;)
        local.get 32
        i32.const 1
        i32.sub
        local.set 32
        local.get 31
        i32.load 1
        local.set 33
        local.get 31
        i32.const 4
        i32.add
        local.set 31
        local.get 33
        i32.load 1
        local.get 33
        i32.load 1 offset=8
        local.set 5
        local.set 4
        local.get 33
        i64.load 1 offset=16 align=4
        local.set 6
        block ;; label = @3
          global.get 3
          local.get 6
          local.get 4
          i64.extend_i32_s
          i64.mul
          i64.add
          global.set 3
          local.get 4
          i32.const 3
          i32.gt_s
          if ;; label = @4
            br 3 (;@1;)
          end
        end
        br 0 (;@2;)
      end
    end
    i32.const 5824
    local.tee 34
    i32.load 1
    local.set 36
    local.get 36
    if ;; label = @1
      local.get 34
      call $whamm.map_sorted
      local.set 35
    end
    block ;; label = @1
      loop ;; label = @2
        local.get 36
        i32.eqz
        br_if 1 (;@1;)
        local.get 36
        i32.const 1
        i32.sub
        local.set 36
        local.get 35
        i32.load 1
        local.set 37
        local.get 35
        i32.const 4
        i32.add
        local.set 35
        local.get 37
        i32.load 1
        local.set 7
        block ;; label = @3
          local.get 7
          i32.const 1
          i32.eq
          if ;; label = @4
            br 1 (;@3;)
          end
          i32.const 5824
          local.set 9
          local.get 7
          local.set 20
          i32.const 0
          local.get 20
          i64.extend_i32_u
          i64.store 1 offset=16 align=4
          local.get 9
          call $whamm.map_find
          local.tee 14
          if (type 12) (result i32 i32) ;; label = @4
            local.get 14
            i32.load 1
            local.get 14
            i32.load 1 offset=8
          else
            i32.const 0
            i32.const 0
          end
          global.set 5
          global.set 4
        end
        br 0 (;@2;)
      end
    end
    i32.add
  )
  (func $sub (;2;) (type $bin) (param i32 i32) (result i32)
    (local i32 i32 i32 i32 i64 i32 i64 i32 i32 i32 i32 f64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    local.get 0
    local.get 1
    local.set 2
    local.tee 3
    local.get 2
    i64.const 2
    local.set 8
    i32.const 5784
    local.set 9
    local.get 2
    local.get 2
    i32.const 1
    i32.gt_s
    local.set 11
    local.set 10
    i32.const 0
    local.get 10
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 11
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 9
    call $whamm.map_get
    local.set 12
    local.get 12
    local.get 12
    i64.load 1 align=4
    local.get 8
    i64.add
    i64.store 1 align=4
    i32.const -1
    local.set 12
    i32.const 5736
    local.set 9
    local.get 2
    f64.convert_i32_s
    f64.const 0x1p+1 (;=2;)
    f64.div
    local.set 13
    i32.const 0
    local.get 13
    i64.reinterpret_f64
    i64.store 1 offset=16 align=4
    local.get 9
    call $whamm.map_get
    local.set 14
    local.get 12
    local.set 15
    local.get 14
    local.get 15
    i32.store 1
    i32.const 1
    local.set 15
    i32.const 5736
    local.set 14
    local.get 3
    f64.convert_i32_s
    f64.neg
    local.set 13
    i32.const 0
    local.get 13
    i64.reinterpret_f64
    i64.store 1 offset=16 align=4
    local.get 14
    call $whamm.map_get
    local.set 9
    local.get 9
    local.get 9
    i32.load 1
    local.get 15
    i32.sub
    i32.extend8_s
    i32.store 1
    i32.const 1
    local.set 9
    i32.const 5688
    local.set 14
    i32.const 5874
    i32.const 7
    local.set 17
    local.set 16
    i32.const 0
    local.get 16
    local.get 17
    call $whamm.intern
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 17
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 14
    call $whamm.map_get
    local.set 15
    local.get 15
    i32.load 1
    local.set 12
    local.get 3
    local.set 18
    i32.const 0
    local.get 18
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 12
    call $whamm.map_get
    local.set 19
    local.get 19
    local.get 19
    i32.load 1
    local.get 9
    i32.add
    i32.store 1
    i32.const 5881
    i32.const 3
    local.set 18
    local.set 19
    i32.const 5824
    local.set 12
    local.get 2
    local.set 15
    i32.const 0
    local.get 15
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 12
    call $whamm.map_get
    local.set 14
    local.get 19
    local.get 18
    local.set 9
    local.get 14
    local.get 9
    i32.store 1 offset=8
    local.set 20
    local.get 14
    local.get 20
    i32.store 1
    i32.const 5784
    i32.load 1
    global.set 1
    i64.const 1
    local.set 8
    i32.const 5784
    local.set 20
    i32.const 99
    i32.const 0
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
    local.get 20
    call $whamm.map_get
    local.set 9
    local.get 8
    local.set 23
    local.get 9
    local.get 23
    i64.store 1 align=4
    i32.const 5784
    local.set 9
    i32.const 99
    i32.const 0
    local.set 25
    local.set 24
    i32.const 0
    local.get 24
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 25
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 9
    call $whamm.map_find
    i32.const 0
    i32.ne
    global.set 2
    i32.const 5784
    local.set 9
    i32.const 99
    i32.const 0
    local.set 27
    local.set 26
    i32.const 0
    local.get 26
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 27
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 9
    call $whamm.map_delete
    global.get 2
    if (result i32) ;; label = @1
      i32.const 5784
      local.set 9
      i32.const 99
      i32.const 0
      local.set 29
      local.set 28
      i32.const 0
      local.get 28
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 29
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 9
      call $whamm.map_find
      i32.const 0
      i32.ne
      i32.eqz
    else
      i32.const 0
    end
    global.set 2
    i64.const 0
    global.set 3
    i32.const 5784
    local.tee 30
    i32.load 1
    local.set 32
    local.get 32
    if ;; label = @1
      local.get 30
      call $whamm.map_sorted
      local.set 31
    end
    block ;; label = @1
      loop ;; label = @2
        local.get 32
        i32.eqz
        br_if 1 (;@1;)
        local.get 32
        i32.const 1
        i32.sub
        local.set 32
        local.get 31
        i32.load 1
        local.set 33
        local.get 31
        i32.const 4
        i32.add
        local.set 31
        local.get 33
        i32.load 1
        local.get 33
        i32.load 1 offset=8
        local.set 5
        local.set 4
        local.get 33
        i64.load 1 offset=16 align=4
        local.set 6
        block ;; label = @3
          global.get 3
          local.get 6
          local.get 4
          i64.extend_i32_s
          i64.mul
          i64.add
          global.set 3
          local.get 4
          i32.const 3
          i32.gt_s
          if ;; label = @4
            br 3 (;@1;)
          end
        end
        br 0 (;@2;)
      end
    end
    i32.const 5824
    local.tee 34
    i32.load 1
    local.set 36
    local.get 36
    if ;; label = @1
      local.get 34
      call $whamm.map_sorted
      local.set 35
    end
    block ;; label = @1
      loop ;; label = @2
        local.get 36
        i32.eqz
        br_if 1 (;@1;)
        local.get 36
        i32.const 1
        i32.sub
        local.set 36
        local.get 35
        i32.load 1
        local.set 37
        local.get 35
        i32.const 4
        i32.add
        local.set 35
        local.get 37
        i32.load 1
        local.set 7
        block ;; label = @3
          local.get 7
          i32.const 1
          i32.eq
          if ;; label = @4
            br 1 (;@3;)
          end
          i32.const 5824
          local.set 9
          local.get 7
          local.set 20
          i32.const 0
          local.get 20
          i64.extend_i32_u
          i64.store 1 offset=16 align=4
          local.get 9
          call $whamm.map_find
          local.tee 14
          if (type 12) (result i32 i32) ;; label = @4
            local.get 14
            i32.load 1
            local.get 14
            i32.load 1 offset=8
          else
            i32.const 0
            i32.const 0
          end
          global.set 5
          global.set 4
        end
        br 0 (;@2;)
      end
    end
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
    (local i32 i32 i32 i32 i64 i32 i64 i32 i32 i32 i32 f64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    local.get $n
    i32.eqz
    if ;; label = @1
      i32.const 0
      return
    end
    local.get $n
    i32.const 1
    local.set 1
    local.tee 2
    local.get 1
    i64.const 2
    local.set 7
    i32.const 5784
    local.set 8
    local.get 1
    local.get 1
    i32.const 1
    i32.gt_s
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
    local.get 8
    call $whamm.map_get
    local.set 11
    local.get 11
    local.get 11
    i64.load 1 align=4
    local.get 7
    i64.add
    i64.store 1 align=4
    i32.const -1
    local.set 11
    i32.const 5736
    local.set 8
    local.get 1
    f64.convert_i32_s
    f64.const 0x1p+1 (;=2;)
    f64.div
    local.set 12
    i32.const 0
    local.get 12
    i64.reinterpret_f64
    i64.store 1 offset=16 align=4
    local.get 8
    call $whamm.map_get
    local.set 13
    local.get 11
    local.set 14
    local.get 13
    local.get 14
    i32.store 1
    i32.const 1
    local.set 14
    i32.const 5736
    local.set 13
    local.get 2
    f64.convert_i32_s
    f64.neg
    local.set 12
    i32.const 0
    local.get 12
    i64.reinterpret_f64
    i64.store 1 offset=16 align=4
    local.get 13
    call $whamm.map_get
    local.set 8
    local.get 8
    local.get 8
    i32.load 1
    local.get 14
    i32.sub
    i32.extend8_s
    i32.store 1
    i32.const 1
    local.set 8
    i32.const 5688
    local.set 13
    i32.const 5874
    i32.const 7
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
    local.get 13
    call $whamm.map_get
    local.set 14
    local.get 14
    i32.load 1
    local.set 11
    local.get 2
    local.set 17
    i32.const 0
    local.get 17
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 11
    call $whamm.map_get
    local.set 18
    local.get 18
    local.get 18
    i32.load 1
    local.get 8
    i32.add
    i32.store 1
    i32.const 5884
    i32.const 4
    local.set 17
    local.set 18
    i32.const 5824
    local.set 11
    local.get 1
    local.set 14
    i32.const 0
    local.get 14
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    local.get 11
    call $whamm.map_get
    local.set 13
    local.get 18
    local.get 17
    local.set 8
    local.get 13
    local.get 8
    i32.store 1 offset=8
    local.set 19
    local.get 13
    local.get 19
    i32.store 1
    i32.const 5784
    i32.load 1
    global.set 1
    i64.const 1
    local.set 7
    i32.const 5784
    local.set 19
    i32.const 99
    i32.const 0
    local.set 21
    local.set 20
    i32.const 0
    local.get 20
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 21
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 19
    call $whamm.map_get
    local.set 8
    local.get 7
    local.set 22
    local.get 8
    local.get 22
    i64.store 1 align=4
    i32.const 5784
    local.set 8
    i32.const 99
    i32.const 0
    local.set 24
    local.set 23
    i32.const 0
    local.get 23
    i64.extend_i32_u
    i64.store 1 offset=16 align=4
    i32.const 0
    local.get 24
    i64.extend_i32_u
    i64.store 1 offset=24 align=4
    local.get 8
    call $whamm.map_find
    i32.const 0
    i32.ne
    global.set 2
    i32.const 5784
    local.set 8
    i32.const 99
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
    local.get 8
    call $whamm.map_delete
    global.get 2
    if (result i32) ;; label = @1
      i32.const 5784
      local.set 8
      i32.const 99
      i32.const 0
      local.set 28
      local.set 27
      i32.const 0
      local.get 27
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 28
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 8
      call $whamm.map_find
      i32.const 0
      i32.ne
      i32.eqz
    else
      i32.const 0
    end
    global.set 2
    i64.const 0
    global.set 3
    i32.const 5784
    local.tee 29
    i32.load 1
    local.set 31
    local.get 31
    if ;; label = @1
      local.get 29
      call $whamm.map_sorted
      local.set 30
    end
    block ;; label = @1
      loop ;; label = @2
        local.get 31
        i32.eqz
        br_if 1 (;@1;)
        local.get 31
        i32.const 1
        i32.sub
        local.set 31
        local.get 30
        i32.load 1
        local.set 32
        local.get 30
        i32.const 4
        i32.add
        local.set 30
        local.get 32
        i32.load 1
        local.get 32
        i32.load 1 offset=8
        local.set 4
        local.set 3
        local.get 32
        i64.load 1 offset=16 align=4
        local.set 5
        block ;; label = @3
          global.get 3
          local.get 5
          local.get 3
          i64.extend_i32_s
          i64.mul
          i64.add
          global.set 3
          local.get 3
          i32.const 3
          i32.gt_s
          if ;; label = @4
            br 3 (;@1;)
          end
        end
        br 0 (;@2;)
      end
    end
    i32.const 5824
    local.tee 33
    i32.load 1
    local.set 35
    local.get 35
    if ;; label = @1
      local.get 33
      call $whamm.map_sorted
      local.set 34
    end
    block ;; label = @1
      loop ;; label = @2
        local.get 35
        i32.eqz
        br_if 1 (;@1;)
        local.get 35
        i32.const 1
        i32.sub
        local.set 35
        local.get 34
        i32.load 1
        local.set 36
        local.get 34
        i32.const 4
        i32.add
        local.set 34
        local.get 36
        i32.load 1
        local.set 6
        block ;; label = @3
          local.get 6
          i32.const 1
          i32.eq
          if ;; label = @4
            br 1 (;@3;)
          end
          i32.const 5824
          local.set 8
          local.get 6
          local.set 19
          i32.const 0
          local.get 19
          i64.extend_i32_u
          i64.store 1 offset=16 align=4
          local.get 8
          call $whamm.map_find
          local.tee 13
          if (type 12) (result i32 i32) ;; label = @4
            local.get 13
            i32.load 1
            local.get 13
            i32.load 1 offset=8
          else
            i32.const 0
            i32.const 0
          end
          global.set 5
          global.set 4
        end
        br 0 (;@2;)
      end
    end
    i32.sub
    return_call $tail
  )
  (func $multi (;6;) (type 3) (param i32) (result i32 i64)
    local.get 0
    global.get $g
  )
  (func (;7;) (type 4)
    (local $i i32) (local $f f64) (local i32 i32 i32 i32 i64 i32 i64 i32 i32 i32 i32 f64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    i32.const 9
    i32.const 4
    i32.const 1
    call_indirect (type $bin)
    call $log
    i32.const 9
    i32.const 4
    i32.const 2
    call_indirect (type $bin)
    call $log
    loop ;; label = @1
      local.get $i
      call $switch
      call $log
      local.get $i
      i32.const 1
      local.set 2
      local.tee 3
      local.get 2
      i64.const 2
      local.set 8
      i32.const 5784
      local.set 9
      local.get 2
      local.get 2
      i32.const 1
      i32.gt_s
      local.set 11
      local.set 10
      i32.const 0
      local.get 10
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 11
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 9
      call $whamm.map_get
      local.set 12
      local.get 12
      local.get 12
      i64.load 1 align=4
      local.get 8
      i64.add
      i64.store 1 align=4
      i32.const -1
      local.set 12
      i32.const 5736
      local.set 9
      local.get 2
      f64.convert_i32_s
      f64.const 0x1p+1 (;=2;)
      f64.div
      local.set 13
      i32.const 0
      local.get 13
      i64.reinterpret_f64
      i64.store 1 offset=16 align=4
      local.get 9
      call $whamm.map_get
      local.set 14
      local.get 12
      local.set 15
      local.get 14
      local.get 15
      i32.store 1
      i32.const 1
      local.set 15
      i32.const 5736
      local.set 14
      local.get 3
      f64.convert_i32_s
      f64.neg
      local.set 13
      i32.const 0
      local.get 13
      i64.reinterpret_f64
      i64.store 1 offset=16 align=4
      local.get 14
      call $whamm.map_get
      local.set 9
      local.get 9
      local.get 9
      i32.load 1
      local.get 15
      i32.sub
      i32.extend8_s
      i32.store 1
      i32.const 1
      local.set 9
      i32.const 5688
      local.set 14
      i32.const 5864
      i32.const 7
      local.set 17
      local.set 16
      i32.const 0
      local.get 16
      local.get 17
      call $whamm.intern
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 17
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 14
      call $whamm.map_get
      local.set 15
      local.get 15
      i32.load 1
      local.set 12
      local.get 3
      local.set 18
      i32.const 0
      local.get 18
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      local.get 12
      call $whamm.map_get
      local.set 19
      local.get 19
      local.get 19
      i32.load 1
      local.get 9
      i32.add
      i32.store 1
      i32.const 0
      i32.const 0
      local.set 18
      local.set 19
      i32.const 5824
      local.set 12
      local.get 2
      local.set 15
      i32.const 0
      local.get 15
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      local.get 12
      call $whamm.map_get
      local.set 14
      local.get 19
      local.get 18
      local.set 9
      local.get 14
      local.get 9
      i32.store 1 offset=8
      local.set 20
      local.get 14
      local.get 20
      i32.store 1
      i32.const 5784
      i32.load 1
      global.set 1
      i64.const 1
      local.set 8
      i32.const 5784
      local.set 20
      i32.const 99
      i32.const 0
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
      local.get 20
      call $whamm.map_get
      local.set 9
      local.get 8
      local.set 23
      local.get 9
      local.get 23
      i64.store 1 align=4
      i32.const 5784
      local.set 9
      i32.const 99
      i32.const 0
      local.set 25
      local.set 24
      i32.const 0
      local.get 24
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 25
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 9
      call $whamm.map_find
      i32.const 0
      i32.ne
      global.set 2
      i32.const 5784
      local.set 9
      i32.const 99
      i32.const 0
      local.set 27
      local.set 26
      i32.const 0
      local.get 26
      i64.extend_i32_u
      i64.store 1 offset=16 align=4
      i32.const 0
      local.get 27
      i64.extend_i32_u
      i64.store 1 offset=24 align=4
      local.get 9
      call $whamm.map_delete
      global.get 2
      if (result i32) ;; label = @2
        i32.const 5784
        local.set 9
        i32.const 99
        i32.const 0
        local.set 29
        local.set 28
        i32.const 0
        local.get 28
        i64.extend_i32_u
        i64.store 1 offset=16 align=4
        i32.const 0
        local.get 29
        i64.extend_i32_u
        i64.store 1 offset=24 align=4
        local.get 9
        call $whamm.map_find
        i32.const 0
        i32.ne
        i32.eqz
      else
        i32.const 0
      end
      global.set 2
      i64.const 0
      global.set 3
      i32.const 5784
      local.tee 30
      i32.load 1
      local.set 32
      local.get 32
      if ;; label = @2
        local.get 30
        call $whamm.map_sorted
        local.set 31
      end
      block ;; label = @2
        loop ;; label = @3
          local.get 32
          i32.eqz
          br_if 1 (;@2;)
          local.get 32
          i32.const 1
          i32.sub
          local.set 32
          local.get 31
          i32.load 1
          local.set 33
          local.get 31
          i32.const 4
          i32.add
          local.set 31
          local.get 33
          i32.load 1
          local.get 33
          i32.load 1 offset=8
          local.set 5
          local.set 4
          local.get 33
          i64.load 1 offset=16 align=4
          local.set 6
          block ;; label = @4
            global.get 3
            local.get 6
            local.get 4
            i64.extend_i32_s
            i64.mul
            i64.add
            global.set 3
            local.get 4
            i32.const 3
            i32.gt_s
            if ;; label = @5
              br 3 (;@2;)
            end
          end
          br 0 (;@3;)
        end
      end
      i32.const 5824
      local.tee 34
      i32.load 1
      local.set 36
      local.get 36
      if ;; label = @2
        local.get 34
        call $whamm.map_sorted
        local.set 35
      end
      block ;; label = @2
        loop ;; label = @3
          local.get 36
          i32.eqz
          br_if 1 (;@2;)
          local.get 36
          i32.const 1
          i32.sub
          local.set 36
          local.get 35
          i32.load 1
          local.set 37
          local.get 35
          i32.const 4
          i32.add
          local.set 35
          local.get 37
          i32.load 1
          local.set 7
          block ;; label = @4
            local.get 7
            i32.const 1
            i32.eq
            if ;; label = @5
              br 1 (;@4;)
            end
            i32.const 5824
            local.set 9
            local.get 7
            local.set 20
            i32.const 0
            local.get 20
            i64.extend_i32_u
            i64.store 1 offset=16 align=4
            local.get 9
            call $whamm.map_find
            local.tee 14
            if (type 12) (result i32 i32) ;; label = @5
              local.get 14
              i32.load 1
              local.get 14
              i32.load 1 offset=8
            else
              i32.const 0
              i32.const 0
            end
            global.set 5
            global.set 4
          end
          br 0 (;@3;)
        end
      end
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
  (func $"#func27 whamm.flush" (@name "whamm.flush") (;27;) (type 5)
    (local i32)
    global.get 7
    local.set 0
    i32.const 0
    global.set 7
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
