(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (result i64) (call $f) (i32.store8 (i32.const 3) (i32.const 9))
        (i64.load (i32.const 0))))
;; enter 1 export "run"
;; call 0
;; write 0 0 0101010101010101
;; return
;; leave i64:72340172972294401
