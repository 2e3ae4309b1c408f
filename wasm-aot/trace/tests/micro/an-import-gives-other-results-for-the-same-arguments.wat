(module (import "h" "now" (func $now (param i32) (result i64)))
    (func (export "run") (result i64)
        (i64.sub (call $now (i32.const 1)) (call $now (i32.const 1)))))
;; enter 1 export "run"
;; call 0 i32:1
;; return i64:1234567890123456789
;; call 0 i32:1
;; return i64:1234567890123456000
;; leave i64:789
