(module (import "h" "f" (func $f)) (tag $e (export "e") (param i64))
    (func (export "run") (result i64)
        (block $caught (result i64) (try_table (catch $e $caught) (call $f)) (i64.const 0))))
;; enter 1 export "run"
;; call 0
;; return
;; leave i64:0
;; enter 1 export "run"
;; call 0
;; return exception 0 i64:-1
;; leave i64:-1
