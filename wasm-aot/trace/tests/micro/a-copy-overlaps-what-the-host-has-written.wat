(module (import "h" "f" (func $f)) (memory (export "m") 1) (data (i32.const 0) "abcdefgh")
    (func (export "run") (result i64) (call $f) (memory.copy (i32.const 2) (i32.const 0) (i32.const 6)) (i64.load (i32.const 0))))
;; enter 1 export "run"
;; call 0
;; write 0 1 58
;; return
;; leave i64:7378413942363740257
