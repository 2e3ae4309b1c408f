(module (type $t (func (result i32))) (import "h" "c" (global $c funcref))
    (import "h" "f" (func $f (param funcref) (result funcref)))
    (import "h" "g" (global $g (mut funcref)))
    (global $own (export "own") (mut funcref) (ref.func $one)) (table $u 1 funcref)
    (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2)) (elem declare func $two)
    (func $call (param funcref) (result i32) (table.set $u (i32.const 0) (local.get 0))
        (call_indirect $u (type $t) (i32.const 0)))
    (func (export "run") (result i32 i32 i32 i32 i32 funcref)
        (call $call (global.get $c)) (call $call (global.get $g)) (call $call (global.get $own))
        (global.set $g (call $f (global.get $c))) (call $call (global.get $g))
        (global.set $own (ref.func $two)) (call $call (global.get $own)) (global.get $g)))
;; function -> i32
;; global 0 func:5
;; function -> i32
;; global 1 func:6
;; enter 4 export "run"
;; call 5
;; return i32:10
;; call 6
;; return i32:20
;; call 0 func:5
;; return func:5
;; call 5
;; return i32:30
;; leave i32:10 i32:20 i32:1 i32:30 i32:2 func:5
;; global 2 func:1
;; global 1 func:null
;; enter 4 export "run"
;; call 5
;; return i32:11
;; leave trap "uninitialized element"
