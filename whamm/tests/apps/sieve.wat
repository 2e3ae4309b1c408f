;; Primes below two hundred: marks, counts, and sorts out the last digits.
(module
  (memory (export "memory") 1)
  (func $mark (param $n i32) (local $i i32)
    (local.set $i (i32.mul (local.get $n) (local.get $n)))
    (block $done (loop $next
      (br_if $done (i32.gt_s (local.get $i) (i32.const 200)))
      (i32.store8 offset=1000 (local.get $i) (i32.const 1))
      (local.set $i (i32.add (local.get $i) (local.get $n)))
      (br $next))))
  (func $count (param $from i32) (result i32) (local $n i32)
    (loop $next
      (if (i32.eqz (i32.load8_u offset=1000 (local.get $from)))
        (then (local.set $n (i32.add (local.get $n) (i32.const 1)))
          (i32.store (i32.const 0) (local.get $from)))
        (else (i32.store8 (local.get $from) (i32.const 0))))
      (local.tee $from (i32.add (local.get $from) (i32.const 1)))
      (br_if $next (i32.lt_u (i32.const 200))))
    (local.get $n))
  (func $kind (param $n i32) (result i32)
    (block $other (block $nine (block $one
      (br_table $one $other $nine $other (i32.shr_u (i32.rem_u (local.get $n) (i32.const 10)) (i32.const 2))))
      (return (i32.const 1)))
      (return (i32.const 9)))
    (i32.const 5))
  (func (export "main") (result i32) (local $i i32) (local $sum i32)
    (local.set $i (i32.const 2))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (i32.const 15)))
      (block $skip
        (br_if $skip (i32.load8_u offset=1000 (local.get $i)))
        (call $mark (local.get $i)))
      (local.set $sum (i32.add (local.get $sum) (call $kind (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (i32.add (i32.mul (call $count (i32.const 2)) (i32.const 1000)) (local.get $sum))))
