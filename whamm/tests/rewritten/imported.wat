  (func $add (;20;) (type $bin) (param i32 i32) (result i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    local.get 0
    local.get 1
    local.set 2
    local.tee 3
    local.get 2
    i32.const 2
    local.set 5
    i32.const 3
    local.set 6
    local.get 2
    local.set 7
    local.get 6
    local.get 7
    call $get_i32_i32
    local.get 5
    i32.add
    local.set 5
    local.get 6
    local.get 7
    local.get 5
    call $insert_i32_i32
    i32.const 1
    local.set 7
    i32.const 3
    local.set 6
    i32.const 3
    local.set 5
    local.get 6
    local.get 5
    call $get_i32_i32
    local.get 7
    i32.sub
    local.set 7
    local.get 6
    local.get 5
    local.get 7
    call $insert_i32_i32
    i32.const 1
    local.set 5
    i32.const 1
    local.set 6
    i32.const 5912
    i32.const 7
    local.set 9
    local.set 8
    local.get 8
    local.get 9
    call $whamm.core_text
    local.set 7
    local.get 6
    local.get 7
    local.get 9
    call $get_string_i32
    local.get 5
    i32.add
    i32.const 65535
    i32.and
    local.set 5
    local.get 6
    local.get 7
    local.get 9
    local.get 5
    call $insert_string_i32
    local.get 7
    call $mem_free
    i32.const 65535
    local.set 7
    i32.const 1
    local.set 6
    i32.const 5919
    i32.const 3
    local.set 11
    local.set 10
    local.get 10
    local.get 11
    call $whamm.core_text
    local.set 5
    local.get 6
    local.get 5
    local.get 11
    local.get 7
    call $insert_string_i32
    local.get 5
    call $mem_free
    i32.const 0
    local.set 5
    local.get 2
    i32.const -1
    local.set 13
    local.set 12
    local.get 5
    local.get 12
    local.get 13
    call $get_i32i32tuple_i32
    i32.const 255
    i32.add
    i32.const 255
    i32.and
    local.set 6
    i32.const 0
    local.set 7
    local.get 2
    i32.const -1
    local.set 15
    local.set 14
    local.get 7
    local.get 14
    local.get 15
    local.get 6
    call $insert_i32i32tuple_i32
    i32.const 1
    local.set 7
    i32.const 2
    local.set 6
    i32.const 1
    local.get 2
    i32.const -2
    local.set 18
    local.set 17
    local.set 16
    local.get 6
    local.get 16
    local.get 17
    local.get 18
    call $get_i32i32i32tuple_i32
    local.get 7
    i32.sub
    local.set 7
    local.get 6
    local.get 16
    local.get 17
    local.get 18
    local.get 7
    call $insert_i32i32i32tuple_i32
    i32.const 1
    local.set 6
    i32.const 5688
    local.set 7
    i32.const 5912
    i32.const 7
    local.set 20
    local.set 19
    i32.const 0
    local.get 19
    local.get 20
    call $whamm.intern
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    i32.const 0
    local.get 20
    i64.extend_i32_u
    i64.store 2 offset=24 align=4
    local.get 7
    call $whamm.map_get
    local.set 5
    local.get 5
    i32.load 2
    local.set 21
    local.get 2
    local.set 22
    i32.const 0
    local.get 22
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 21
    call $whamm.map_get
    local.set 23
    local.get 23
    local.get 23
    i32.load 2
    local.get 6
    i32.add
    i32.store 2
    local.get 2
    local.set 23
    i32.const 5784
    local.set 22
    local.get 3
    local.set 21
    i32.const 0
    local.get 21
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 22
    call $whamm.map_get
    local.set 5
    local.get 23
    local.set 7
    local.get 5
    local.get 7
    i32.store 2
    global.get 1
    i32.const 3
    local.set 7
    i32.const 7
    local.set 5
    local.get 7
    local.get 5
    call $get_i32_i32
    i64.extend_i32_s
    i32.const 1
    local.set 21
    i32.const 5912
    i32.const 7
    local.set 25
    local.set 24
    local.get 24
    local.get 25
    call $whamm.core_text
    local.set 22
    local.get 21
    local.get 22
    local.get 25
    call $get_string_i32
    local.get 22
    call $mem_free
    i64.extend_i32_u
    i64.add
    i64.add
    global.set 1
    i32.const 5928
    call $whamm.map_like
    local.set 4
    local.get 2
    local.set 22
    local.get 4
    local.set 21
    i32.const 1
    local.set 5
    i32.const 0
    local.get 5
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 21
    call $whamm.map_get
    local.set 7
    local.get 22
    local.set 23
    local.get 7
    local.get 23
    i32.store 2
    call $"#func41 whamm.flush"
    local.get 4
    local.set 23
    i32.const 1
    local.set 7
    i32.const 0
    local.get 7
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 23
    call $whamm.map_find
    local.tee 5
    if (result i32) ;; label = @1
      local.get 5
      i32.load 2
    else
      i32.const 0
    end
    call $puti32
    i32.const 5968
    i32.const 1
    call $whamm.puts
    local.get 2
    local.set 21
    local.get 21
    i64.extend_i32_u
    call $whamm.put_hex
    i32.const 5968
    i32.const 1
    call $whamm.puts
    call $"#func41 whamm.flush"
    local.get 2
    i32.const 1
    i32.gt_s
    call $putbool
    i32.const 5968
    i32.const 1
    call $whamm.puts
    i32.const 5969
    i32.const 2
    local.set 27
    local.set 26
    local.get 26
    local.get 27
    call $whamm.puts
    i32.const 5971
    i32.const 1
    call $whamm.puts
    call $"#func41 whamm.flush"
    i32.add
  )
  (func $sub (;21;) (type $bin) (param i32 i32) (result i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
    local.get 0
    local.get 1
    local.set 2
    local.tee 3
    local.get 2
    i32.const 2
    local.set 5
    i32.const 3
    local.set 6
    local.get 2
    local.set 7
    local.get 6
    local.get 7
    call $get_i32_i32
    local.get 5
    i32.add
    local.set 5
    local.get 6
    local.get 7
    local.get 5
    call $insert_i32_i32
    i32.const 1
    local.set 7
    i32.const 3
    local.set 6
    i32.const 3
    local.set 5
    local.get 6
    local.get 5
    call $get_i32_i32
    local.get 7
    i32.sub
    local.set 7
    local.get 6
    local.get 5
    local.get 7
    call $insert_i32_i32
    i32.const 1
    local.set 5
    i32.const 1
    local.set 6
    i32.const 6088
    i32.const 7
    local.set 9
    local.set 8
    local.get 8
    local.get 9
    call $whamm.core_text
    local.set 7
    local.get 6
    local.get 7
    local.get 9
    call $get_string_i32
    local.get 5
    i32.add
    i32.const 65535
    i32.and
    local.set 5
    local.get 6
    local.get 7
    local.get 9
    local.get 5
    call $insert_string_i32
    local.get 7
    call $mem_free
    i32.const 65535
    local.set 7
    i32.const 1
    local.set 6
    i32.const 6095
    i32.const 3
    local.set 11
    local.set 10
    local.get 10
    local.get 11
    call $whamm.core_text
    local.set 5
    local.get 6
    local.get 5
    local.get 11
    local.get 7
    call $insert_string_i32
    local.get 5
    call $mem_free
    i32.const 0
    local.set 5
    local.get 2
    i32.const -1
    local.set 13
    local.set 12
    local.get 5
    local.get 12
    local.get 13
    call $get_i32i32tuple_i32
    i32.const 255
    i32.add
    i32.const 255
    i32.and
    local.set 6
    i32.const 0
    local.set 7
    local.get 2
    i32.const -1
    local.set 15
    local.set 14
    local.get 7
    local.get 14
    local.get 15
    local.get 6
    call $insert_i32i32tuple_i32
    i32.const 1
    local.set 7
    i32.const 2
    local.set 6
    i32.const 1
    local.get 2
    i32.const -2
    local.set 18
    local.set 17
    local.set 16
    local.get 6
    local.get 16
    local.get 17
    local.get 18
    call $get_i32i32i32tuple_i32
    local.get 7
    i32.sub
    local.set 7
    local.get 6
    local.get 16
    local.get 17
    local.get 18
    local.get 7
    call $insert_i32i32i32tuple_i32
    i32.const 1
    local.set 6
    i32.const 5688
    local.set 7
    i32.const 6088
    i32.const 7
    local.set 20
    local.set 19
    i32.const 0
    local.get 19
    local.get 20
    call $whamm.intern
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    i32.const 0
    local.get 20
    i64.extend_i32_u
    i64.store 2 offset=24 align=4
    local.get 7
    call $whamm.map_get
    local.set 5
    local.get 5
    i32.load 2
    local.set 21
    local.get 2
    local.set 22
    i32.const 0
    local.get 22
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 21
    call $whamm.map_get
    local.set 23
    local.get 23
    local.get 23
    i32.load 2
    local.get 6
    i32.add
    i32.store 2
    local.get 2
    local.set 23
    i32.const 5976
    local.set 22
    local.get 3
    local.set 21
    i32.const 0
    local.get 21
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 22
    call $whamm.map_get
    local.set 5
    local.get 23
    local.set 7
    local.get 5
    local.get 7
    i32.store 2
    global.get 1
    i32.const 3
    local.set 7
    i32.const 7
    local.set 5
    local.get 7
    local.get 5
    call $get_i32_i32
    i64.extend_i32_s
    i32.const 1
    local.set 21
    i32.const 5912
    i32.const 7
    local.set 25
    local.set 24
    local.get 24
    local.get 25
    call $whamm.core_text
    local.set 22
    local.get 21
    local.get 22
    local.get 25
    call $get_string_i32
    local.get 22
    call $mem_free
    i64.extend_i32_u
    i64.add
    i64.add
    global.set 1
    i32.const 6104
    call $whamm.map_like
    local.set 4
    local.get 2
    local.set 22
    local.get 4
    local.set 21
    i32.const 1
    local.set 5
    i32.const 0
    local.get 5
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 21
    call $whamm.map_get
    local.set 7
    local.get 22
    local.set 23
    local.get 7
    local.get 23
    i32.store 2
    call $"#func41 whamm.flush"
    local.get 4
    local.set 23
    i32.const 1
    local.set 7
    i32.const 0
    local.get 7
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 23
    call $whamm.map_find
    local.tee 5
    if (result i32) ;; label = @1
      local.get 5
      i32.load 2
    else
      i32.const 0
    end
    call $puti32
    i32.const 5968
    i32.const 1
    call $whamm.puts
    local.get 2
    local.set 21
    local.get 21
    i64.extend_i32_u
    call $whamm.put_hex
    i32.const 5968
    i32.const 1
    call $whamm.puts
    call $"#func41 whamm.flush"
    local.get 2
    i32.const 1
    i32.gt_s
    call $putbool
    i32.const 5968
    i32.const 1
    call $whamm.puts
    i32.const 5969
    i32.const 2
    local.set 27
    local.set 26
    local.get 26
    local.get 27
    call $whamm.puts
    i32.const 5971
    i32.const 1
    call $whamm.puts
    call $"#func41 whamm.flush"
    i32.sub
  )
  (func $switch (;22;) (type 2) (param $n i32) (result i32)
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
  (func $out (;23;) (type 2) (param $n i32) (result i32)
    block (result i32) ;; label = @1
      i32.const 5
      local.get $n
      i32.eqz
      br_if 0 (;@1;)
      drop
      i32.const 6
    end
  )
  (func $tail (;24;) (type 2) (param $n i32) (result i32)
    (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
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
    i32.const 2
    local.set 4
    i32.const 3
    local.set 5
    local.get 1
    local.set 6
    local.get 5
    local.get 6
    call $get_i32_i32
    local.get 4
    i32.add
    local.set 4
    local.get 5
    local.get 6
    local.get 4
    call $insert_i32_i32
    i32.const 1
    local.set 6
    i32.const 3
    local.set 5
    i32.const 3
    local.set 4
    local.get 5
    local.get 4
    call $get_i32_i32
    local.get 6
    i32.sub
    local.set 6
    local.get 5
    local.get 4
    local.get 6
    call $insert_i32_i32
    i32.const 1
    local.set 4
    i32.const 1
    local.set 5
    i32.const 6088
    i32.const 7
    local.set 8
    local.set 7
    local.get 7
    local.get 8
    call $whamm.core_text
    local.set 6
    local.get 5
    local.get 6
    local.get 8
    call $get_string_i32
    local.get 4
    i32.add
    i32.const 65535
    i32.and
    local.set 4
    local.get 5
    local.get 6
    local.get 8
    local.get 4
    call $insert_string_i32
    local.get 6
    call $mem_free
    i32.const 65535
    local.set 6
    i32.const 1
    local.set 5
    i32.const 6184
    i32.const 4
    local.set 10
    local.set 9
    local.get 9
    local.get 10
    call $whamm.core_text
    local.set 4
    local.get 5
    local.get 4
    local.get 10
    local.get 6
    call $insert_string_i32
    local.get 4
    call $mem_free
    i32.const 0
    local.set 4
    local.get 1
    i32.const -1
    local.set 12
    local.set 11
    local.get 4
    local.get 11
    local.get 12
    call $get_i32i32tuple_i32
    i32.const 255
    i32.add
    i32.const 255
    i32.and
    local.set 5
    i32.const 0
    local.set 6
    local.get 1
    i32.const -1
    local.set 14
    local.set 13
    local.get 6
    local.get 13
    local.get 14
    local.get 5
    call $insert_i32i32tuple_i32
    i32.const 1
    local.set 6
    i32.const 2
    local.set 5
    i32.const 1
    local.get 1
    i32.const -2
    local.set 17
    local.set 16
    local.set 15
    local.get 5
    local.get 15
    local.get 16
    local.get 17
    call $get_i32i32i32tuple_i32
    local.get 6
    i32.sub
    local.set 6
    local.get 5
    local.get 15
    local.get 16
    local.get 17
    local.get 6
    call $insert_i32i32i32tuple_i32
    i32.const 1
    local.set 5
    i32.const 5688
    local.set 6
    i32.const 6088
    i32.const 7
    local.set 19
    local.set 18
    i32.const 0
    local.get 18
    local.get 19
    call $whamm.intern
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    i32.const 0
    local.get 19
    i64.extend_i32_u
    i64.store 2 offset=24 align=4
    local.get 6
    call $whamm.map_get
    local.set 4
    local.get 4
    i32.load 2
    local.set 20
    local.get 1
    local.set 21
    i32.const 0
    local.get 21
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 20
    call $whamm.map_get
    local.set 22
    local.get 22
    local.get 22
    i32.load 2
    local.get 5
    i32.add
    i32.store 2
    local.get 1
    local.set 22
    i32.const 6144
    local.set 21
    local.get 2
    local.set 20
    i32.const 0
    local.get 20
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 21
    call $whamm.map_get
    local.set 4
    local.get 22
    local.set 6
    local.get 4
    local.get 6
    i32.store 2
    global.get 1
    i32.const 3
    local.set 6
    i32.const 7
    local.set 4
    local.get 6
    local.get 4
    call $get_i32_i32
    i64.extend_i32_s
    i32.const 1
    local.set 20
    i32.const 5912
    i32.const 7
    local.set 24
    local.set 23
    local.get 23
    local.get 24
    call $whamm.core_text
    local.set 21
    local.get 20
    local.get 21
    local.get 24
    call $get_string_i32
    local.get 21
    call $mem_free
    i64.extend_i32_u
    i64.add
    i64.add
    global.set 1
    i32.const 6192
    call $whamm.map_like
    local.set 3
    local.get 1
    local.set 21
    local.get 3
    local.set 20
    i32.const 1
    local.set 4
    i32.const 0
    local.get 4
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 20
    call $whamm.map_get
    local.set 6
    local.get 21
    local.set 22
    local.get 6
    local.get 22
    i32.store 2
    call $"#func41 whamm.flush"
    local.get 3
    local.set 22
    i32.const 1
    local.set 6
    i32.const 0
    local.get 6
    i64.extend_i32_u
    i64.store 2 offset=16 align=4
    local.get 22
    call $whamm.map_find
    local.tee 4
    if (result i32) ;; label = @1
      local.get 4
      i32.load 2
    else
      i32.const 0
    end
    call $puti32
    i32.const 5968
    i32.const 1
    call $whamm.puts
    local.get 1
    local.set 20
    local.get 20
    i64.extend_i32_u
    call $whamm.put_hex
    i32.const 5968
    i32.const 1
    call $whamm.puts
    call $"#func41 whamm.flush"
    local.get 1
    i32.const 1
    i32.gt_s
    call $putbool
    i32.const 5968
    i32.const 1
    call $whamm.puts
    i32.const 5969
    i32.const 2
    local.set 26
    local.set 25
    local.get 25
    local.get 26
    call $whamm.puts
    i32.const 5971
    i32.const 1
    call $whamm.puts
    call $"#func41 whamm.flush"
    i32.sub
    return_call $tail
  )
  (func $multi (;25;) (type 3) (param i32) (result i32 i64)
    local.get 0
    global.get $g
  )
  (func (;26;) (type 4)
    (local $i i32) (local $f f64) (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)
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
      i32.const 2
      local.set 5
      i32.const 3
      local.set 6
      local.get 2
      local.set 7
      local.get 6
      local.get 7
      call $get_i32_i32
      local.get 5
      i32.add
      local.set 5
      local.get 6
      local.get 7
      local.get 5
      call $insert_i32_i32
      i32.const 1
      local.set 7
      i32.const 3
      local.set 6
      i32.const 3
      local.set 5
      local.get 6
      local.get 5
      call $get_i32_i32
      local.get 7
      i32.sub
      local.set 7
      local.get 6
      local.get 5
      local.get 7
      call $insert_i32_i32
      i32.const 1
      local.set 5
      i32.const 1
      local.set 6
      i32.const 5912
      i32.const 7
      local.set 9
      local.set 8
      local.get 8
      local.get 9
      call $whamm.core_text
      local.set 7
      local.get 6
      local.get 7
      local.get 9
      call $get_string_i32
      local.get 5
      i32.add
      i32.const 65535
      i32.and
      local.set 5
      local.get 6
      local.get 7
      local.get 9
      local.get 5
      call $insert_string_i32
      local.get 7
      call $mem_free
      i32.const 65535
      local.set 7
      i32.const 1
      local.set 6
      i32.const 0
      i32.const 0
      local.set 11
      local.set 10
      local.get 10
      local.get 11
      call $whamm.core_text
      local.set 5
      local.get 6
      local.get 5
      local.get 11
      local.get 7
      call $insert_string_i32
      local.get 5
      call $mem_free
      i32.const 0
      local.set 5
      local.get 2
      i32.const -1
      local.set 13
      local.set 12
      local.get 5
      local.get 12
      local.get 13
      call $get_i32i32tuple_i32
      i32.const 255
      i32.add
      i32.const 255
      i32.and
      local.set 6
      i32.const 0
      local.set 7
      local.get 2
      i32.const -1
      local.set 15
      local.set 14
      local.get 7
      local.get 14
      local.get 15
      local.get 6
      call $insert_i32i32tuple_i32
      i32.const 1
      local.set 7
      i32.const 2
      local.set 6
      i32.const 1
      local.get 2
      i32.const -2
      local.set 18
      local.set 17
      local.set 16
      local.get 6
      local.get 16
      local.get 17
      local.get 18
      call $get_i32i32i32tuple_i32
      local.get 7
      i32.sub
      local.set 7
      local.get 6
      local.get 16
      local.get 17
      local.get 18
      local.get 7
      call $insert_i32i32i32tuple_i32
      i32.const 1
      local.set 6
      i32.const 5688
      local.set 7
      i32.const 5912
      i32.const 7
      local.set 20
      local.set 19
      i32.const 0
      local.get 19
      local.get 20
      call $whamm.intern
      i64.extend_i32_u
      i64.store 2 offset=16 align=4
      i32.const 0
      local.get 20
      i64.extend_i32_u
      i64.store 2 offset=24 align=4
      local.get 7
      call $whamm.map_get
      local.set 5
      local.get 5
      i32.load 2
      local.set 21
      local.get 2
      local.set 22
      i32.const 0
      local.get 22
      i64.extend_i32_u
      i64.store 2 offset=16 align=4
      local.get 21
      call $whamm.map_get
      local.set 23
      local.get 23
      local.get 23
      i32.load 2
      local.get 6
      i32.add
      i32.store 2
      local.get 2
      local.set 23
      i32.const 6232
      local.set 22
      local.get 3
      local.set 21
      i32.const 0
      local.get 21
      i64.extend_i32_u
      i64.store 2 offset=16 align=4
      local.get 22
      call $whamm.map_get
      local.set 5
      local.get 23
      local.set 7
      local.get 5
      local.get 7
      i32.store 2
      global.get 1
      i32.const 3
      local.set 7
      i32.const 7
      local.set 5
      local.get 7
      local.get 5
      call $get_i32_i32
      i64.extend_i32_s
      i32.const 1
      local.set 21
      i32.const 5912
      i32.const 7
      local.set 25
      local.set 24
      local.get 24
      local.get 25
      call $whamm.core_text
      local.set 22
      local.get 21
      local.get 22
      local.get 25
      call $get_string_i32
      local.get 22
      call $mem_free
      i64.extend_i32_u
      i64.add
      i64.add
      global.set 1
      i32.const 6272
      call $whamm.map_like
      local.set 4
      local.get 2
      local.set 22
      local.get 4
      local.set 21
      i32.const 1
      local.set 5
      i32.const 0
      local.get 5
      i64.extend_i32_u
      i64.store 2 offset=16 align=4
      local.get 21
      call $whamm.map_get
      local.set 7
      local.get 22
      local.set 23
      local.get 7
      local.get 23
      i32.store 2
      call $"#func41 whamm.flush"
      local.get 4
      local.set 23
      i32.const 1
      local.set 7
      i32.const 0
      local.get 7
      i64.extend_i32_u
      i64.store 2 offset=16 align=4
      local.get 23
      call $whamm.map_find
      local.tee 5
      if (result i32) ;; label = @2
        local.get 5
        i32.load 2
      else
        i32.const 0
      end
      call $puti32
      i32.const 5968
      i32.const 1
      call $whamm.puts
      local.get 2
      local.set 21
      local.get 21
      i64.extend_i32_u
      call $whamm.put_hex
      i32.const 5968
      i32.const 1
      call $whamm.puts
      call $"#func41 whamm.flush"
      local.get 2
      i32.const 1
      i32.gt_s
      call $putbool
      i32.const 5968
      i32.const 1
      call $whamm.puts
      i32.const 5969
      i32.const 2
      local.set 27
      local.set 26
      local.get 26
      local.get 27
      call $whamm.puts
      i32.const 5971
      i32.const 1
      call $whamm.puts
      call $"#func41 whamm.flush"
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
    memory.grow 1
    call $log
    i32.const 64
    i32.const 1
    i32.const 4
    memory.fill 1
    i32.const 5
    i32.load8_u 1 offset=60
    call $log
    i32.const 80
    i64.const 123456789
    i64.store32 1
    i32.const 80
    i32.load 1
    i32.const 1
    i32.const 1
    select
    call $log
  )
  (func $"#func41 whamm.flush" (@name "whamm.flush") (;41;) (type 5)
    (local i32)
    global.get 5
    local.set 0
    i32.const 0
    global.set 5
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_core
    end
  )
