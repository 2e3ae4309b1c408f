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

  ;; Whether something could not be written.
  (global $is_lost (mut i32) (i32.const 0))

  ;; What is in the buffer after it was to be written.
  (func $lose_rest
    (global.set $is_lost (i32.or (global.get $is_lost) (global.get $fill)))
    (global.set $fill (i32.const 0)))

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

  ;; A text with figures in it: bytes below six say which, and are followed by where a figure is, in words, behind `base` or
  ;; (with 128 added) behind 0, and for numbers by digits behind the point and the width of a column.
  ;;   1 a number  2 one of 32 bits  3 a number, in thousands  4 the name of a function, by its number  5 the same in quotes
  (func $tell (param $at i32) (param $base i32) (local $what i32) (local $from i32)
    (block $end (loop $next
      (local.set $what (i32.load8_u $own (local.get $at)))
      (local.set $from (i32.load8_u $own offset=1 (local.get $at)))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br_if $end (i32.eqz (local.get $what)))
      (if (i32.gt_u (local.get $what) (i32.const 5)) (then
        (call $byte (local.get $what))
        (br $next)))
      (local.set $from (i32.add (i32.shl (i32.and (local.get $from) (i32.const 127)) (i32.const 2))
        (select (i32.const 0) (local.get $base) (i32.and (local.get $from) (i32.const 128)))))
      (local.set $at (i32.add (local.get $at) (i32.const 3)))
      (if (i32.gt_u (local.get $what) (i32.const 3)) (then
        (local.set $from (i32.load $own offset=24 (call $row (i32.load $own (local.get $from)))))
        (if (i32.eq (local.get $what) (i32.const 4)) (then (call $say (local.get $from))) (else (call $quoted (local.get $from))))
        (br $next)))
      (call $number
        (i64.div_u
          (select (i64.load32_u $own (local.get $from)) (i64.load $own (local.get $from)) (i32.eq (local.get $what) (i32.const 2)))
          (select (i64.const 1000) (i64.const 1) (i32.eq (local.get $what) (i32.const 3))))
        (i32.load8_u $own (i32.sub (local.get $at) (i32.const 2)))
        (i32.load8_u $own (i32.sub (local.get $at) (i32.const 1))))
      (br $next))))

  (func $quoted (param $at i32) (local $byte i32)
    (call $byte (i32.const 34))
    (block $end (loop $next
      (local.set $byte (i32.load8_u $own (local.get $at)))
      (br_if $end (i32.eqz (local.get $byte)))
      (if (i32.or (i32.eq (local.get $byte) (i32.const 34)) (i32.eq (local.get $byte) (i32.const 92)))
        (then (call $byte (i32.const 92))))
      (call $byte (select (local.get $byte) (i32.const 32) (i32.ge_u (local.get $byte) (i32.const 32))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (br $next)))
    (call $byte (i32.const 34)))

  (func $spaces (param $n i32)
    (block $end (loop $next
      (br_if $end (i32.le_s (local.get $n) (i32.const 0)))
      (call $byte (i32.const 32))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $next))))

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

  ;; What is written from here on goes into memory.
  (func $keep
    (global.set $kept (i32.const 1))
    (global.set $is_cut (i32.const 0))
    (global.set $kept_from (global.get $heap))
    (global.set $kept_to (global.get $heap))
    (global.set $kept_room (global.get $heap)))
