(module (type $t (func (param i32) (result i32))) (type $n (func)) (tag $e (export "e") (param i32))
    (import "h" "f" (func $f (type $t))) (table $u (export "u") 6 funcref) (elem (i32.const 0) $own $f)
    (elem (i32.const 4) $nothing) (func $own (type $t) (i32.add (local.get 0) (i32.const 1))) (func $nothing (type $n))
    (func (export "out") (type $t) (i32.mul (local.get 0) (i32.const 2)))
    (func $run (export "run") (param i32 i32) (result i32)
        (block $thrown (result i32)
            (try_table (result i32) (catch $e $thrown) (call_indirect $u (type $t) (local.get 1) (local.get 0)))))
    (func (export "tail") (param i32 i32) (result i32)
        (return_call_indirect $u (type $t) (local.get 1) (local.get 0)))
    (func (export "nothing") (param i32) (call_indirect $u (type $n) (local.get 0))))
;; function i32 -> i32
;; element 0 2 func:7
;; function ->
;; element 0 3 func:8
;; enter 4 export "run" i32:0 i32:5
;; leave i32:6
;; enter 4 export "run" i32:1 i32:5
;; call 0 i32:5
;; return i32:50
;; leave i32:50
;; enter 4 export "run" i32:2 i32:5
;; call 7 i32:5
;; return i32:70
;; leave i32:70
;; enter 4 export "run" i32:2 i32:6
;; call 7 i32:6
;; enter 3 export "out" i32:6
;; leave i32:12
;; return i32:13
;; leave i32:13
;; enter 4 export "run" i32:2 i32:7
;; call 7 i32:7
;; enter 1 reference i32:8
;; leave i32:9
;; enter 1 reference i32:7
;; leave i32:8
;; return i32:90
;; leave i32:90
;; enter 4 export "run" i32:2 i32:8
;; call 7 i32:8
;; enter 2 reference
;; leave
;; return exception 0 i32:33
;; leave i32:33
;; enter 6 export "nothing" i32:4
;; leave
;; enter 6 export "nothing" i32:3
;; call 8
;; enter 4 export "run" i32:2 i32:1
;; call 7 i32:1
;; return i32:2
;; leave i32:2
;; return
;; leave
;; enter 5 export "tail" i32:2 i32:3
;; call 7 i32:3
;; return i32:4
;; leave i32:4
;; element 0 0 func:7
;; element 0 2 func:1
;; element 0 1 func:null
;; enter 4 export "run" i32:0 i32:9
;; call 7 i32:9
;; return i32:10
;; leave i32:10
;; enter 4 export "run" i32:2 i32:11
;; leave i32:12
;; enter 4 export "run" i32:1 i32:1
;; leave trap "uninitialized element"
