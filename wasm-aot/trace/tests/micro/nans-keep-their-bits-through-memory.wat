(module (import "h" "f" (func $f (result f32))) (memory (export "m") 1)
    (func (export "run") (result i32) (f32.store (i32.const 0) (call $f)) (i32.load (i32.const 0))))
;; enter 1 export "run"
;; call 0
;; return f32:0x7fa00001
;; leave i32:2141192193
