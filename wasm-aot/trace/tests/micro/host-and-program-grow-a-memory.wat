(module (import "h" "f" (func $f)) (memory (export "m") 1 10)
    (func (export "run") (result i32 i32)
    (drop (memory.grow (i32.const 1))) (call $f) (memory.grow (i32.const 1)) (i32.load (i32.const 131072))))
;; enter 1 export "run"
;; call 0
;; grow 0 2
;; write 0 131072 2a000000
;; return
;; leave i32:4 i32:42
