(module (tag $e (export "e") (param i32 f64))
    (func (export "run") (param i32) (if (local.get 0) (then (throw $e (local.get 0) (f64.const 0.5))))))
;; enter 0 export "run" i32:0
;; leave
;; enter 0 export "run" i32:3
;; leave exception 0 i32:3 f64:0x3fe0000000000000
;; enter 0 export "run" i32:0
;; leave
