(module (type $t (func (result i32))) (import "h" "f" (func $f)) (table $u (export "u") i64 4 20 funcref)
    (table $o (export "o") i64 2 20 externref) (elem $e func $one $two)
    (elem (table $u) (i64.const 2) func $one) (elem declare func $two)
    (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2))
    (func (export "run") (result i32 i32 i32 i32 i64 i32 i32) (call $f)
        (call_indirect $u (type $t) (i64.const 0))
        (call_indirect $u (type $t) (i64.const 2))
        (table.init $u $e (i64.const 1) (i32.const 1) (i32.const 1))
        (table.copy $u $u (i64.const 2) (i64.const 0) (i64.const 2))
        (call_indirect $u (type $t) (i64.const 3))
        (ref.is_null (table.get $u (i64.const 1)))
        (table.grow $u (ref.func $two) (i64.const 3))
        (table.fill $o (i64.const 0) (table.get $o (i64.const 1)) (i64.const 1))
        (ref.is_null (table.get $o (i64.const 0)))
        (table.set $u (i64.const 5) (table.get $u (i64.const 2)))
        (call_indirect $u (type $t) (i64.const 5))))
;; enter 3 export "run"
;; call 0
;; function -> i32
;; element 0 0 func:4
;; element 0 2 func:2
;; element 1 1 extern:0
;; return
;; call 4
;; return i32:10
;; call 4
;; return i32:20
;; leave i32:10 i32:2 i32:2 i32:0 i64:4 i32:0 i32:20
