  ;; Which folder has the file.
  (global $dir (mut i32) (i32.const 3))

  (func $open_file (result i32)
    (global.set $dir (i32.const 3))
    (loop $next
      (if (i32.eqz (call $path_open (global.get $dir) (i32.const 1) (global.get $path) (global.get $part_len)
          (i32.const 9) (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 328)))
        (then (return (i32.load $own (i32.const 328)))))
      (global.set $dir (i32.add (global.get $dir) (i32.const 1)))
      (br_if $next (i32.lt_u (global.get $dir) (i32.const 16))))
    (i32.const -1))

  (func $rename_file (result i32)
    (call $path_rename (global.get $dir) (global.get $path) (global.get $part_len)
      (global.get $dir) (global.get $path) (global.get $path_len)))
