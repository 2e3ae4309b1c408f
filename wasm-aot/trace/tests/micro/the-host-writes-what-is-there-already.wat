(module (import "h" "f" (func $f)) (memory (export "m") 1) (data (i32.const 0) "abcd")
    (func (export "run") (result i32) (call $f) (i32.load (i32.const 0))))
;; enter 1 export "run"
;; call 0
;; write 0 0 61626364
;; return
;; leave i32:1684234849
