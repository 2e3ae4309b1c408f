(module (import "h" "f" (func $f (param i32) (result i32))) (table (export "t") funcref (elem $own $other))
    (func $own (param i32) (result i32) (call $f (i32.add (local.get 0) (i32.const 1))))
    (func $other (export "other") (param i32) (result i32) (i32.const 0)))
;; enter 1 reference i32:1
;; call 0 i32:2
;; enter 2 export "other" i32:2
;; leave i32:0
;; return i32:5
;; leave i32:5
