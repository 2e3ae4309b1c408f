(module (import "h" "m" (memory $a 1)) (memory $b 1) (memory $c (export "c") 1)
    (func (export "run") (result i32)
    (i32.add (i32.load $a (i32.const 0)) (i32.add (i32.load $b (i32.const 0)) (i32.load $c (i32.const 0)))))
    (data $d (memory $b) (i32.const 0) "\05"))
;; write 0 0 01
;; write 2 0 0a000000
;; enter 0 export "run"
;; leave i32:16
