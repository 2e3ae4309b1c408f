;; What is written: to a file or the console by way of a buffer, or into memory for the host to fetch.

  (global $fd (mut i32) (i32.const 2))
  (global $fill (mut i32) (i32.const 0))
  ;; Whether it goes into memory; where it begins, ends, and how far there is room.
  (global $kept (mut i32) (i32.const 0))
  (global $kept_from (mut i32) (i32.const 0))
  (global $kept_to (mut i32) (i32.const 0))
  (global $kept_room (mut i32) (i32.const 0))
  ;; Whether there was no room for all of it.
  (global $is_cut (mut i32) (i32.const 0))

  (func $byte (param $byte i32)
    (if (global.get $kept) (then
      (if (i32.eq (global.get $kept_to) (global.get $kept_room)) (then
        (if (i32.eqz (call $alloc (i32.const 4096))) (then (global.set $is_cut (i32.const 1)) (return)))
        (global.set $kept_room (i32.add (global.get $kept_room) (i32.const 4096)))))
      (i32.store8 $own (global.get $kept_to) (local.get $byte))
      (global.set $kept_to (i32.add (global.get $kept_to) (i32.const 1)))
      (return)))
    (i32.store8 $own (i32.add (i32.const 512) (global.get $fill)) (local.get $byte))
    (global.set $fill (i32.add (global.get $fill) (i32.const 1)))
    (if (i32.eq (global.get $fill) (i32.const 1008)) (then (call $flush))))

  ;; A text with a zero byte behind it.
  (func $say (param $at i32)
    (block $end (loop $next
      (br_if $end (i32.eqz (i32.load8_u $own (local.get $at))))
      (call $byte (i32.load8_u $own (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next))))

  (func $spaces (param $n i32)
    (block $end (loop $next
      (br_if $end (i32.le_s (local.get $n) (i32.const 0)))
      (call $byte (i32.const 32))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $next))))

  (func $name (param $id i32) (result i32)
    (i32.load $own (i32.add (global.get $name_at) (i32.shl (local.get $id) (i32.const 2)))))

  ;; The digits of a number with some behind the point: where they begin, before 400.
  (func $digits (param $value i64) (param $decimals i32) (result i32) (local $at i32) (local $n i32)
    (local.set $at (i32.const 400))
    (loop $next
      (if (i32.and (i32.ne (local.get $decimals) (i32.const 0)) (i32.eq (local.get $n) (local.get $decimals))) (then
        (local.set $at (i32.sub (local.get $at) (i32.const 1)))
        (i32.store8 $own (local.get $at) (i32.const 46))))
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 $own (local.get $at) (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $value) (i64.const 10)))))
      (local.set $value (i64.div_u (local.get $value) (i64.const 10)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $next (i32.or (i64.ne (local.get $value) (i64.const 0)) (i32.le_s (local.get $n) (local.get $decimals)))))
    (local.get $at))

  ;; The same, set to the right in a column.
  (func $number (param $value i64) (param $decimals i32) (param $width i32) (local $at i32)
    (local.set $at (call $digits (local.get $value) (local.get $decimals)))
    (call $spaces (i32.sub (local.get $width) (i32.sub (i32.const 400) (local.get $at))))
    (i32.store8 $own (i32.const 400) (i32.const 0))
    (call $say (local.get $at)))

  (func $whole (param $value i64) (call $number (local.get $value) (i32.const 0) (i32.const 0)))

  ;; Nanoseconds as milliseconds with three digits behind the point.
  (func $milliseconds (param $time i64) (param $width i32)
    (call $number (i64.div_u (local.get $time) (i64.const 1000)) (i32.const 3) (local.get $width)))

  ;; What is written from here on goes into memory.
  (func $keep
    (global.set $kept (i32.const 1))
    (global.set $is_cut (i32.const 0))
    (global.set $kept_from (global.get $heap))
    (global.set $kept_to (global.get $heap))
    (global.set $kept_room (global.get $heap)))
