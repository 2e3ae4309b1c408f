(module (type $t (func (param i32) (result i32))) (tag $e (export "e") (param funcref))
    (import "h" "f" (func $f (param i32) (result i32)))
    (table $u (export "u") 4 funcref) (elem declare func $own)
    (func $own (export "own") (type $t) (call_indirect $u (type $t) (local.get 0) (i32.const 1)))
    (func (export "run") (param i32) (result i32)
        (table.set $u (i32.const 2) (table.get $u (i32.const 0)))
        (i32.add (i32.const 1) (call_indirect $u (type $t) (i32.const 5) (local.get 0))))
    (func (export "tail") (param i32) (result i32)
        (return_call_indirect $u (type $t) (i32.const 6) (local.get 0)))
    (func (export "caught") (param i32) (result i32)
        (table.set $u (i32.const 3)
            (block $h (result funcref)
                (return (try_table (result i32) (catch $e $h)
                    (call_indirect $u (type $t) (i32.const 7) (local.get 0))))))
        (call_indirect $u (type $t) (i32.const 8) (i32.const 3))))
;; function i32 -> i32
;; element 0 0 func:5
;; function i32 -> i32
;; element 0 1 func:6
;; enter 2 export "run" i32:2
;; call 5 i32:5
;; enter 1 export "own" i32:9
;; call 6 i32:9
;; return i32:90
;; leave i32:90
;; enter 1 export "own" i32:4
;; call 6 i32:4
;; return i32:40
;; leave i32:40
;; return i32:50
;; leave i32:51
;; enter 3 export "tail" i32:0
;; call 5 i32:6
;; return i32:60
;; leave i32:60
;; enter 4 export "caught" i32:0
;; call 5 i32:7
;; return exception 0 func:6
;; call 6 i32:8
;; return i32:80
;; leave i32:80
;; enter 4 export "caught" i32:0
;; call 5 i32:7
;; return exception 0 func:1
;; call 6 i32:8
;; return i32:81
;; leave i32:81
;; enter 4 export "caught" i32:3
;; call 6 i32:7
;; return i32:82
;; leave i32:82
