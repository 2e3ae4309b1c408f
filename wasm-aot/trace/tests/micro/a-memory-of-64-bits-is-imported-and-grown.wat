(module (import "h" "m" (memory i64 1)) (import "h" "f" (func $f))
    (func (export "run") (result i64 i64) (call $f) (memory.size) (i64.load (i64.const 131064))))
;; enter 1 export "run"
;; call 0
;; grow 0 1
;; write 0 131071 80
;; return
;; leave i64:2 i64:-9223372036854775808
