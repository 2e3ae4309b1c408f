  ;; The length of the part of the path at $path that is the name of a folder, with the slashes behind it: 0 if the path
  ;; does not begin at the root, -1 if it is not in this folder. WASI writes the name to $room, which has $len bytes.
  (func $below_{memory} (param $dir i32) (param $room i32) (param $len i32) (result i32) (local $n i32) (local $at i32)
    (if (i32.ne (i32.load8_u $own (global.get $path)) (i32.const 47)) (then (return (i32.const 0))))
    (if (call $fd_prestat_get (local.get $dir) (local.get $room)) (then (return (i32.const -1))))
    (local.set $n (i32.load ${memory} offset=4 (local.get $room)))
    (if (i32.gt_u (local.get $n) (local.get $len)) (then (return (i32.const -1))))
    (if (call $fd_prestat_dir_name (local.get $dir) (local.get $room) (local.get $n)) (then (return (i32.const -1))))
    (block $stripped (loop $next
      (br_if $stripped (i32.eqz (local.get $n)))
      (br_if $stripped (i32.ne (i32.const 47)
        (i32.load8_u ${memory} (i32.sub (i32.add (local.get $room) (local.get $n)) (i32.const 1)))))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $next)))
    (if (i32.ge_u (local.get $n) (global.get $path_len)) (then (return (i32.const -1))))
    (block $same (loop $next
      (br_if $same (i32.eq (local.get $at) (local.get $n)))
      (if (i32.ne (i32.load8_u ${memory} (i32.add (local.get $room) (local.get $at)))
                  (i32.load8_u $own (i32.add (global.get $path) (local.get $at)))) (then (return (i32.const -1))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next)))
    (if (i32.ne (i32.load8_u $own (i32.add (global.get $path) (local.get $n))) (i32.const 47))
      (then (return (i32.const -1))))
    (loop $next
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.and (i32.lt_u (local.get $n) (global.get $path_len))
        (i32.eq (i32.load8_u $own (i32.add (global.get $path) (local.get $n))) (i32.const 47)))))
    (local.get $n))
