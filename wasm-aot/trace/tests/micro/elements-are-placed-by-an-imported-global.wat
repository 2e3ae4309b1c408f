(module (type $t (func (result i32))) (import "env" "base" (global $base i32))
    (import "h" "f" (func $f)) (table $u (export "t") 8 funcref)
    (elem (table $u) (global.get $base) func $one $two)
    (elem (table $u) (i32.add (global.get $base) (i32.const 1)) func $three) (elem (table $u) (i32.const 2) func $one)
    (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2)) (func $three (type $t) (i32.const 3))
    (func (export "run") (param i32) (result i32) (call $f) (call_indirect $u (type $t) (local.get 0))))
;; global 0 i32:2
;; enter 4 export "run" i32:2
;; call 0
;; return
;; leave i32:1
;; enter 4 export "run" i32:3
;; call 0
;; return
;; leave i32:3
;; enter 4 export "run" i32:2
;; call 0
;; element 0 2 func:2
;; return
;; leave i32:2
