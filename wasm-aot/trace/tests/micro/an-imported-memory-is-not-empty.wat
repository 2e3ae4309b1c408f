(module (import "h" "m" (memory 1))
    (func (export "run") (result i64 i64) (i64.load (i32.const 0)) (i64.load (i32.const 65528))))
;; write 0 1 22
;; write 0 65535 80
;; enter 0 export "run"
;; leave i64:8704 i64:-9223372036854775808
