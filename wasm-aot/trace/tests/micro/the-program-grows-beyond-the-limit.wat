(module (import "h" "f" (func $f (param i32))) (memory (export "m") 1 2)
    (func (export "run") (call $f (memory.grow (i32.const 1))) (call $f (memory.grow (i32.const 1)))))
;; enter 1 export "run"
;; call 0 i32:1
;; return
;; call 0 i32:-1
;; return
;; leave
