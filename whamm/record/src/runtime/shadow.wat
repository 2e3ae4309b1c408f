  ;; The program reads: what differs was found, 256 bytes at a time, from the first byte that differs to the last.
  (func $check{K} (export "read:{K}") (param $a i64) (param $n i64) (local $c i64)
    (if (i32.eqz (call $fits{K} (local.get $a) (local.get $n))) (then (return)))
    (block $end (loop $next
      (br_if $end (i64.eqz (local.get $n)))
      (local.set $c (select (local.get $n) (i64.const 256) (i64.lt_u (local.get $n) (i64.const 256))))
      (call $piece{K} (local.get $a) (local.get $c))
      (local.set $a (i64.add (local.get $a) (local.get $c)))
      (local.set $n (i64.sub (local.get $n) (local.get $c)))
      (br $next))))
  (func $piece{K} (param $a i64) (param $n i64) (local $end i64) (local $last i64)
    (local.set $end (i64.add (local.get $a) (local.get $n)))
    (block $differs8 (loop $next
      (br_if $differs8 (i64.gt_u (i64.const 8) (i64.sub (local.get $end) (local.get $a))))
      (br_if $differs8 (i64.ne (i64.load $m{K} {A}) (i64.load $s{K} {A})))
      (local.set $a (i64.add (local.get $a) (i64.const 8)))
      (br $next)))
    (block $differs (loop $next
      (if (i64.eq (local.get $a) (local.get $end)) (then (return)))
      (br_if $differs (i32.ne (i32.load8_u $m{K} {A}) (i32.load8_u $s{K} {A})))
      (local.set $a (i64.add (local.get $a) (i64.const 1)))
      (br $next)))
    (local.set $last (local.get $a))
    (local.set $n (local.get $a))
    (loop $next
      (if (i32.ne (i32.load8_u $m{K} {A}) (i32.load8_u $s{K} {A})) (then (local.set $last (local.get $a))))
      (br_if $next (i64.lt_u (local.tee $a (i64.add (local.get $a) (i64.const 1))) (local.get $end))))
    (local.set $a (local.get $n))
    (local.set $n (i64.add (i64.sub (local.get $last) (local.get $a)) (i64.const 1)))
    (call $bytes{K} (i32.const 0x20) (local.get $a) (local.get $n))
    (call $took{K} (local.get $a) (local.get $n)))
  ;; The program has written.
  (func $took{K} (export "wrote:{K}") (param $a i64) (param $n i64)
    (if (i32.eqz (call $fits{K} (local.get $a) (local.get $n))) (then (return)))
    (memory.copy $s{K} $m{K} {A} {A} {N}))
  ;; What it has grown to.
  (func (export "begin:{K}") (local $a i64) (local $n i64)
    (local.set $n (i64.shl {SIZE} (i64.const 16)))
    {BEGIN})
