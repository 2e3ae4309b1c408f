  ;; The folder that has the file, and how much of the path is its name.
  (global $dir (mut i32) (i32.const 3))
  (global $skip (mut i32) (i32.const 0))

  (func $open_file (result i32)
    (global.set $dir (i32.const 3))
    (loop $next
      (global.set $skip (call $below_own (global.get $dir) (i32.const 1536) (i32.const 1024)))
      (if (i32.ne (global.get $skip) (i32.const -1)) (then
        (if (i32.eqz (call $path_open (global.get $dir) (i32.const 1)
            (i32.add (global.get $path) (global.get $skip)) (i32.sub (global.get $part_len) (global.get $skip))
            (i32.const 9) (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 328)))
          (then (return (i32.load $own (i32.const 328)))))))
      (global.set $dir (i32.add (global.get $dir) (i32.const 1)))
      (br_if $next (i32.lt_u (global.get $dir) (i32.const 16))))
    (i32.const -1))

  (func $rename_file (result i32) (local $path i32)
    (local.set $path (i32.add (global.get $path) (global.get $skip)))
    (call $path_rename
      (global.get $dir) (local.get $path) (i32.sub (global.get $part_len) (global.get $skip))
      (global.get $dir) (local.get $path) (i32.sub (global.get $path_len) (global.get $skip))))
