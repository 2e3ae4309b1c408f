(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (result i32 i64 i32) (call $f) (i32.atomic.rmw.add (i32.const 0) (i32.const 5))
        (i64.atomic.load (i32.const 8)) (i32.atomic.rmw.cmpxchg (i32.const 0) (i32.const 6) (i32.const 9))))
;; enter 1 export "run"
;; call 0
;; write 0 0 01
;; write 0 8 02
;; return
;; leave i32:1 i64:2 i32:6
