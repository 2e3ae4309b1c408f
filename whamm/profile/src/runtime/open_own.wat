  (func $open_file (result i32) (local $dir i32)
    (local.set $dir (i32.const 3))
    (loop $next
      (if (i32.eqz (call $path_open (local.get $dir) (i32.const 1) (global.get $path) (global.get $path_len) (i32.const 9)
          (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 328)))
        (then (return (i32.load $own (i32.const 328)))))
      (br_if $next (i32.lt_u (local.tee $dir (i32.add (local.get $dir) (i32.const 1))) (i32.const 16))))
    (i32.const -1))
