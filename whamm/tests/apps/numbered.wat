;; Two memories of different sizes, with data at different places.
(module
  (memory (export "memory") 3) (memory $other 5)
  (data (i32.const 40) "abc") (data (memory $other) (i32.const 70) "de")
  (func (export "main") (result i32)
    (i32.add (i32.load (i32.const 8)) (i32.load $other (i32.const 8)))))
