;; Counts primes below its argument.
(module
  (func $is_prime (param $n i32) (result i32) (local $d i32)
    (local.set $d (i32.const 2))
    (loop $next
      (if (i32.gt_u (i32.mul (local.get $d) (local.get $d)) (local.get $n)) (then (return (i32.const 1))))
      (if (i32.eqz (i32.rem_u (local.get $n) (local.get $d))) (then (return (i32.const 0))))
      (local.set $d (i32.add (local.get $d) (i32.const 1)))
      (br $next))
    (unreachable))
  (func $count (export "count") (param $to i32) (result i32) (local $n i32) (local $found i32)
    (local.set $n (i32.const 2))
    (loop $next
      (local.set $found (i32.add (local.get $found) (call $is_prime (local.get $n))))
      (br_if $next (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (local.get $to))))
    (local.get $found)))
