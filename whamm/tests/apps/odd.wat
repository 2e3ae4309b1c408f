;; A library with functions that a script has no types for, and without a memory.
(module
  (func (export "two") (result i32 i32) (i32.const 1) (i32.const 2))
  (func (export "far") (param externref))
  (func (export "vector") (result v128) (v128.const i64x2 0 0))
  (func (export "plain") (param i32) (result i32) (local.get 0))
  (func (export "nothing")))
