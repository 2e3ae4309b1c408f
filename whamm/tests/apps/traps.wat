;; Divides by less and less, until that is nothing.
(module
  (memory (export "memory") 1)
  (func $divide (param i32) (result i32) (i32.div_u (i32.const 12) (local.get 0)))
  (func (export "main") (result i32) (local $n i32)
    (local.set $n (i32.const 3))
    (loop $l (result i32)
      (i32.store (i32.const 0) (call $divide (local.get $n)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $l))))
