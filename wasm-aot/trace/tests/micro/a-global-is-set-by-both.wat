(module (import "h" "f" (func $f)) (global $g (export "g") (mut i32) (i32.const 1))
    (func (export "run") (result i32)
        (global.set $g (i32.const 5)) (call $f) (global.set $g (i32.mul (global.get $g) (i32.const 2)))
        (call $f) (global.get $g)))
;; enter 1 export "run"
;; call 0
;; global 0 i32:7
;; return
;; call 0
;; return
;; leave i32:14
