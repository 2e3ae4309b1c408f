(module (import "h" "m" (memory 1)) (import "h" "g" (global $g (mut i32)))
    (func $s (global.set $g (i32.load (i32.const 4)))) (start $s)
    (func (export "run") (result i32) (global.get $g)))
;; write 0 4 09
;; global 0 i32:3
;; enter 0 start
;; leave
;; enter 1 export "run"
;; leave i32:9
