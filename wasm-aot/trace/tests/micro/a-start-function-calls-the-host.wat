(module (import "h" "f" (func $f (result i32))) (global $g (export "g") (mut i32) (i32.const 0))
    (func $s (global.set $g (call $f))) (start $s) (func (export "run") (result i32) (global.get $g)))
;; enter 1 start
;; call 0
;; return i32:4
;; leave
;; enter 2 export "run"
;; leave i32:4
