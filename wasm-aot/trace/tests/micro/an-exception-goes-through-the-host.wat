(module (import "h" "f" (func $f)) (tag $e (export "e") (param i32))
    (func (export "throws") (throw $e (i32.const 8)))
    (func (export "run") (result i32)
        (block $caught (result i32) (try_table (catch $e $caught) (call $f)) (i32.const 0))))
;; enter 2 export "run"
;; call 0
;; enter 1 export "throws"
;; leave exception 0 i32:8
;; return exception 0 i32:8
;; leave i32:8
