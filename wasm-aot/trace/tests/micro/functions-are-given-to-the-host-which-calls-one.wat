(module (type $t (func (param i32 i64 f32 f64) (result i64 f64))) (import "h" "register" (func $register (param funcref funcref)))
    (import "h" "g" (func $g)) (func $f (export "f") (type $t) (i64.extend_i32_u (local.get 0)) (local.get 3))
    (func $none) (elem declare func $f $none $register)
    (func (export "run") (result funcref funcref)
        (call $register (ref.func $none) (ref.func $f)) (call $g) (ref.func $register) (ref.null func)))
;; enter 4 export "run"
;; call 0 func:3 func:2
;; enter 2 export "f" i32:5 i64:6 f32:0x40000000 f64:0x4000000000000000
;; leave i64:5 f64:0x4000000000000000
;; return
;; call 1
;; return
;; leave func:0 func:null
