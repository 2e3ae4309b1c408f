  ;; The folder that has the file, and how much of the path is its name.
  (global $dir (mut i32) (i32.const 3))
  (global $skip (mut i32) (i32.const 0))

  (func $open_file (result i32) (local $fd i32)
    (local.set $fd (i32.const -1))
    (if (i32.eqz (memory.size $app)) (then
      (if (i32.eq (memory.grow $app (i32.const 1)) (i32.const -1)) (then (return (i32.const -1))))))
    (call $lend)
    (global.set $dir (i32.const 3))
    (block $found (loop $next
      (global.set $skip (call $below_app (global.get $dir) (i32.const 16) (i32.const 1008)))
      (if (i32.ne (global.get $skip) (i32.const -1)) (then
        (call $lend_path)
        (if (i32.eqz (call $path_open (global.get $dir) (i32.const 1)
            (i32.const 16) (i32.sub (global.get $part_len) (global.get $skip))
            (i32.const 9) (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 8)))
          (then (local.set $fd (i32.load $app (i32.const 8))) (br $found)))))
      (global.set $dir (i32.add (global.get $dir) (i32.const 1)))
      (br_if $next (i32.lt_u (global.get $dir) (i32.const 16)))))
    (call $give_back)
    (local.get $fd))

  (func $rename_file (result i32) (local $failed i32)
    (call $lend)
    (call $lend_path)
    (local.set $failed (call $path_rename
      (global.get $dir) (i32.const 16) (i32.sub (global.get $part_len) (global.get $skip))
      (global.get $dir) (i32.const 16) (i32.sub (global.get $path_len) (global.get $skip))))
    (call $give_back)
    (local.get $failed))

  (func $lend
    (memory.copy $own $app (i32.const 1536) (i32.const 0) (i32.const 1024)))

  (func $lend_path
    (memory.copy $app $own (i32.const 16) (i32.add (global.get $path) (global.get $skip))
      (i32.sub (global.get $part_len) (global.get $skip))))

  (func $give_back
    (memory.copy $app $own (i32.const 0) (i32.const 1536) (i32.const 1024)))
