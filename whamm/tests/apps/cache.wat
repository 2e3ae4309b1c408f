;; A library: a cache of four lines, and some arithmetic.
(module
  (memory (export "memory") 1)
  (data (i32.const 100) "from the library")
  (global $hits (mut i32) (i32.const 0))
  (func (export "check") (param $addr i32) (result i32) (local $line i32)
    (local.set $line (i32.shl (i32.and (i32.shr_u (local.get $addr) (i32.const 4)) (i32.const 3)) (i32.const 2)))
    (if (result i32) (i32.eq (i32.load (local.get $line)) (i32.add (i32.shr_u (local.get $addr) (i32.const 6)) (i32.const 1)))
      (then (i32.const 1))
      (else (i32.store (local.get $line) (i32.add (i32.shr_u (local.get $addr) (i32.const 6)) (i32.const 1))) (i32.const 0))))
  (func (export "square") (param i32) (result i32) (i32.mul (local.get 0) (local.get 0)))
  (func (export "seen") (param i32) (global.set $hits (i32.add (global.get $hits) (local.get 0))))
  (func (export "sum") (result i32) (global.get $hits)))
