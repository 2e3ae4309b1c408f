(module (type $t (func (result i32))) (import "h" "f" (func $f))
    (table $a (export "a") 4 9 (ref null $t))
    (table $b (export "b") 2 (ref $t) (ref.func $one)) (table $own 3 (ref null $t))
    (global $g (export "g") (mut (ref null $t)) (ref.func $two)) (elem $e (ref $t) (ref.func $one) (ref.func $two))
    (elem (table $a) (i32.const 1) (ref null $t) (ref.func $two) (ref.null $t))
    (func $one (type $t) (i32.const 1)) (func $two (type $t) (i32.const 2))
    (func $sum (result i32)
        (call_ref $t (table.get $a (i32.const 1)))
        (i32.mul (call_indirect $b (type $t) (i32.const 1)) (i32.const 10)) (i32.add)
        (i32.mul (call_ref $t (global.get $g)) (i32.const 100)) (i32.add))
    (func (export "run") (result i32 i32 i32)
        (call $sum) (call $f) (call $sum)
        (table.init $a $e (i32.const 0) (i32.const 0) (i32.const 2))
        (table.copy $own $a (i32.const 0) (i32.const 0) (i32.const 3))
        (global.set $g (table.get $own (i32.const 0)))
        (table.fill $b (i32.const 0) (ref.as_non_null (table.get $own (i32.const 1))) (i32.const 2))
        (drop (table.grow $a (global.get $g) (i32.const 2)))
        (call $sum)))
;; enter 4 export "run"
;; call 0
;; function -> i32
;; element 0 1 func:5
;; element 1 1 func:5
;; global 0 func:1
;; return
;; call 5
;; return i32:7
;; call 5
;; return i32:8
;; leave i32:212 i32:187 i32:122
;; element 0 1 func:null
;; global 0 func:5
;; enter 4 export "run"
;; leave trap "null function reference"
