(module (import "h" "m" (memory 1)) (import "h" "f" (func $f)) (data (i32.const 8) "own")
    (func (export "run") (result i32) (i32.store (i32.const 0) (i32.const 5)) (call $f)
        (i32.add (i32.load (i32.const 0)) (i32.load8_u (i32.const 8)))))
;; write 0 8 6f776e
;; enter 1 export "run"
;; call 0
;; write 0 0 06
;; return
;; leave i32:117
