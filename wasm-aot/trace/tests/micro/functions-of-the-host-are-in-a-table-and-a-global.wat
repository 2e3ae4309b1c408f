(module (type $t (func (param i32) (result i32))) (type $w (func (param i64 f64) (result f32 i64)))
    (import "h" "f" (func $f (param i32) (result i32)))
    (table $u (export "u") 4 funcref) (global $g (export "g") (mut funcref) (ref.null func))
    (elem (i32.const 0) $own)
    (func $own (type $t) (i32.mul (local.get 0) (i32.const 3)))
    (func (export "run") (result i32 i64 i32) (local i64)
        (i32.add (call_indirect $u (type $t) (i32.const 5) (i32.const 1))
            (i32.add (call $f (i32.const 6)) (call_indirect $u (type $t) (i32.const 7) (i32.const 0))))
        (call_indirect $u (type $w) (i64.const -9) (f64.const 0.5) (i32.const 2)) (local.set 0) (drop)
        (local.get 0)
        (table.set $u (i32.const 3) (global.get $g))
        (call_indirect $u (type $t) (i32.const 8) (i32.const 3))))
;; function i32 -> i32
;; element 0 1 func:3
;; function i64 f64 -> f32 i64
;; element 0 2 func:4
;; enter 2 export "run"
;; call 3 i32:5
;; return i32:50
;; call 0 i32:6
;; return i32:60
;; function i32 -> i32
;; found global 0 func:5
;; call 4 i64:-9 f64:0x3fe0000000000000
;; return f32:0x3f800000 i64:12345678901
;; call 5 i32:8
;; enter 1 reference i32:2
;; leave i32:6
;; return i32:80
;; leave i32:131 i64:12345678901 i32:80
