  (func $add (;1;) (type $bin) (param i32 i32) (result i32)
    (local i32 i32)
    local.get 0
    i32.const 1
    i32.eq
    i32.eqz
    if ;; label = @1
      local.get 0
      i32.const 2
      i32.eq
      if ;; label = @2
        global.get 4
        i32.const 1000
        i32.add
        global.set 4
      else
        global.get 1
        i32.const 0
        i32.add
        global.set 1
        global.get 2
        i64.const 10000
        i64.add
        global.set 2
      end
    end
    local.get 0
    local.get 0
    i32.const 1
    i32.eq
    i32.eqz
    if ;; label = @1
      local.get 0
      i32.const 2
      i32.eq
      if ;; label = @2
        global.get 4
        i32.const 1000
        i32.add
        global.set 4
      else
        global.get 1
        i32.const 0
        i32.add
        global.set 1
        global.get 2
        i64.const 10000
        i64.add
        global.set 2
      end
    end
    local.get 1
    global.get 1
    i32.const 1
    i32.add
    global.set 1
    local.set 2
    local.tee 3
    local.get 2
    local.get 3
    i32.const 3
    i32.gt_s
    i32.eqz
    if ;; label = @1
      global.get 6
      i32.const 1
      i32.add
      global.set 6
    end
    i32.add
  )
  (func $sub (;2;) (type $bin) (param i32 i32) (result i32)
    (local i32 i32)
    local.get 0
    i32.const 1
    i32.eq
    i32.eqz
    if ;; label = @1
      local.get 0
      i32.const 2
      i32.eq
      if ;; label = @2
        global.get 4
        i32.const 1000
        i32.add
        global.set 4
      else
        global.get 1
        i32.const 0
        i32.add
        global.set 1
        global.get 2
        i64.const 10000
        i64.add
        global.set 2
      end
    end
    local.get 0
    local.get 0
    i32.const 1
    i32.eq
    i32.eqz
    if ;; label = @1
      local.get 0
      i32.const 2
      i32.eq
      if ;; label = @2
        global.get 4
        i32.const 1000
        i32.add
        global.set 4
      else
        global.get 1
        i32.const 0
        i32.add
        global.set 1
        global.get 2
        i64.const 10000
        i64.add
        global.set 2
      end
    end
    local.get 1
    global.get 2
    i64.const 2
    i64.add
    global.set 2
    local.set 2
    local.tee 3
    local.get 2
    local.get 3
    i32.const 3
    i32.gt_s
    i32.eqz
    if ;; label = @1
      global.get 7
      i64.const 1
      i64.add
      global.set 7
    end
    i32.sub
  )
  (func $switch (;3;) (type 2) (param $n i32) (result i32)
    block ;; label = @1
      block ;; label = @2
        block ;; label = @3
          block ;; label = @4
            local.get $n
            i32.const 1
            i32.eq
            i32.eqz
            if ;; label = @5
              local.get $n
              i32.const 2
              i32.eq
              if ;; label = @6
                global.get 4
                i32.const 1000
                i32.add
                global.set 4
              else
                global.get 1
                i32.const 0
                i32.add
                global.set 1
                global.get 2
                i64.const 10000
                i64.add
                global.set 2
              end
            end
            local.get $n
            global.get 3
            i32.const 100
            i32.add
            global.set 3
            local.get $n
            i32.const 2
            i32.lt_s
            i32.eqz
            if ;; label = @5
              local.get $n
              i32.const 2
              i32.eq
              i32.eqz
              if ;; label = @6
                local.get $n
                i32.const 3
                i32.eq
                if ;; label = @7
                  global.get 8
                  i32.const 1
                  i32.add
                  global.set 8
                else
                  global.get 8
                  i32.const 1
                  i32.add
                  global.set 8
                  global.get 3
                  i32.const 100
                  i32.add
                  global.set 3
                  local.get $n
                  global.set 5
                end
              end
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
    block (result i32) ;; label = @1
      i32.const 5
      local.get $n
      i32.const 1
      i32.eq
      i32.eqz
      if ;; label = @2
        local.get $n
        i32.const 2
        i32.eq
        if ;; label = @3
          global.get 4
          i32.const 1000
          i32.add
          global.set 4
        else
          global.get 1
          i32.const 0
          i32.add
          global.set 1
          global.get 2
          i64.const 10000
          i64.add
          global.set 2
        end
      end
      local.get $n
      global.get 3
      i32.const 100
      i32.add
      global.set 3
      local.get $n
      i32.const 2
      i32.lt_s
      i32.eqz
      if ;; label = @2
        local.get $n
        i32.const 2
        i32.eq
        i32.eqz
        if ;; label = @3
          local.get $n
          i32.const 3
          i32.eq
          if ;; label = @4
            global.get 8
            i32.const 1
            i32.add
            global.set 8
          else
            global.get 8
            i32.const 1
            i32.add
            global.set 8
            global.get 3
            i32.const 100
            i32.add
            global.set 3
            local.get $n
            global.set 5
          end
        end
      end
      i32.eqz
      br_if 0 (;@1;)
      drop
      i32.const 6
    end
  )
  (func $tail (;5;) (type 2) (param $n i32) (result i32)
    (local i32 i32)
    local.get $n
    i32.const 1
    i32.eq
    i32.eqz
    if ;; label = @1
      local.get $n
      i32.const 2
      i32.eq
      if ;; label = @2
        global.get 4
        i32.const 1000
        i32.add
        global.set 4
      else
        global.get 1
        i32.const 0
        i32.add
        global.set 1
        global.get 2
        i64.const 10000
        i64.add
        global.set 2
      end
    end
    local.get $n
    global.get 3
    i32.const 100
    i32.add
    global.set 3
    local.get $n
    i32.const 2
    i32.lt_s
    i32.eqz
    if ;; label = @1
      local.get $n
      i32.const 2
      i32.eq
      i32.eqz
      if ;; label = @2
        local.get $n
        i32.const 3
        i32.eq
        if ;; label = @3
          global.get 8
          i32.const 1
          i32.add
          global.set 8
        else
          global.get 8
          i32.const 1
          i32.add
          global.set 8
          global.get 3
          i32.const 100
          i32.add
          global.set 3
          local.get $n
          global.set 5
        end
      end
    end
    i32.eqz
    if ;; label = @1
      i32.const 0
      return
    end
    local.get $n
    i32.const 1
    i32.eq
    i32.eqz
    if ;; label = @1
      local.get $n
      i32.const 2
      i32.eq
      if ;; label = @2
        global.get 4
        i32.const 1000
        i32.add
        global.set 4
      else
        global.get 1
        i32.const 0
        i32.add
        global.set 1
        global.get 2
        i64.const 10000
        i64.add
        global.set 2
      end
    end
    local.get $n
    i32.const 1
    global.get 2
    i64.const 2
    i64.add
    global.set 2
    local.set 1
    local.tee 2
    local.get 1
    local.get 2
    i32.const 3
    i32.gt_s
    i32.eqz
    if ;; label = @1
      global.get 7
      i64.const 1
      i64.add
      global.set 7
    end
    i32.sub
    return_call $tail
  )
  (func $multi (;6;) (type 3) (param i32) (result i32 i64)
    local.get 0
    i32.const 1
    i32.eq
    i32.eqz
    if ;; label = @1
      local.get 0
      i32.const 2
      i32.eq
      if ;; label = @2
        global.get 4
        i32.const 1000
        i32.add
        global.set 4
      else
        global.get 1
        i32.const 0
        i32.add
        global.set 1
        global.get 2
        i64.const 10000
        i64.add
        global.set 2
      end
    end
    local.get 0
    global.get $g
  )
  (func (;7;) (type 4)
    (local $i i32) (local $f f64) (local i32 i32)
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
      i32.const 1
      i32.eq
      i32.eqz
      if ;; label = @2
        local.get $i
        i32.const 2
        i32.eq
        if ;; label = @3
          global.get 4
          i32.const 1000
          i32.add
          global.set 4
        else
          global.get 1
          i32.const 0
          i32.add
          global.set 1
          global.get 2
          i64.const 10000
          i64.add
          global.set 2
        end
      end
      local.get $i
      call $switch
      call $log
      local.get $i
      i32.const 1
      i32.eq
      i32.eqz
      if ;; label = @2
        local.get $i
        i32.const 2
        i32.eq
        if ;; label = @3
          global.get 4
          i32.const 1000
          i32.add
          global.set 4
        else
          global.get 1
          i32.const 0
          i32.add
          global.set 1
          global.get 2
          i64.const 10000
          i64.add
          global.set 2
        end
      end
      local.get $i
      i32.const 1
      global.get 10
      i64.const 1
      i64.add
      global.set 10
      local.set 2
      local.tee 3
      local.get 2
      local.get 3
      i32.const 3
      i32.gt_s
      i32.eqz
      if ;; label = @2
        global.get 9
        i64.const 1
        i64.add
        global.set 9
      end
      i32.add
      local.set $i
      local.get $i
      i32.const 1
      i32.eq
      i32.eqz
      if ;; label = @2
        local.get $i
        i32.const 2
        i32.eq
        if ;; label = @3
          global.get 4
          i32.const 1000
          i32.add
          global.set 4
        else
          global.get 1
          i32.const 0
          i32.add
          global.set 1
          global.get 2
          i64.const 10000
          i64.add
          global.set 2
        end
      end
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
    local.get $i
    i32.const 1
    i32.eq
    i32.eqz
    if ;; label = @1
      local.get $i
      i32.const 2
      i32.eq
      if ;; label = @2
        global.get 4
        i32.const 1000
        i32.add
        global.set 4
      else
        global.get 1
        i32.const 0
        i32.add
        global.set 1
        global.get 2
        i64.const 10000
        i64.add
        global.set 2
      end
    end
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
  (func $"#func12 whamm.total" (@name "whamm.total") (;12;) (type 8) (result i64)
    global.get 7
    i64.const -2
    i64.mul
    global.get 9
    i64.const -2
    i64.mul
    i64.add
    global.get 10
    i64.const 2
    i64.mul
    i64.add
  )
  (func $"#func13 whamm.total" (@name "whamm.total") (;13;) (type 7) (result i32)
    global.get 6
    global.get 8
    i32.const -100
    i32.mul
    i32.add
    global.get 9
    i32.wrap_i64
    i32.add
  )
  (func $"#func14 whamm.total" (@name "whamm.total") (;14;) (type 7) (result i32)
    global.get 7
    i32.wrap_i64
    i32.const 3
    i32.mul
  )
  (func $"#func16 whamm.flush" (@name "whamm.flush") (;16;) (type 5)
    (local i32)
    global.get 15
    local.set 0
    i32.const 0
    global.set 15
    local.get 0
    if ;; label = @1
      i32.const 2304
      local.get 0
      call $whamm.write_kept
    end
  )
