  (func $open_file (result i32) (local $dir i32) (local $fd i32)
    (local.set $fd (i32.const -1))
    (if (i32.eqz (memory.size $app)) (then
      (if (i32.eq (memory.grow $app (i32.const 1)) (i32.const -1)) (then (return (i32.const -1))))))
    (memory.copy $own $app (i32.const 1536) (i32.const 0) (i32.const 1024))
    (memory.copy $app $own (i32.const 16) (global.get $path) (global.get $path_len))
    (local.set $dir (i32.const 3))
    (block $found (loop $next
      (if (i32.eqz (call $path_open (local.get $dir) (i32.const 1) (i32.const 16) (global.get $path_len) (i32.const 9)
          (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 8)))
        (then (local.set $fd (i32.load $app (i32.const 8))) (br $found)))
      (br_if $next (i32.lt_u (local.tee $dir (i32.add (local.get $dir) (i32.const 1))) (i32.const 16)))))
    (memory.copy $app $own (i32.const 0) (i32.const 1536) (i32.const 1024))
    (local.get $fd))
