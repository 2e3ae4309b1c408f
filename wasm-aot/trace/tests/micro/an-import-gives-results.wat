(module (import "h" "f" (func $f (param i64) (result i32)))
    (func (export "run") (result i32) (i32.add (call $f (i64.const 1)) (call $f (i64.const 2)))))
;; enter 1 export "run"
;; call 0 i64:1
;; return i32:10
;; call 0 i64:2
;; return i32:20
;; leave i32:30
