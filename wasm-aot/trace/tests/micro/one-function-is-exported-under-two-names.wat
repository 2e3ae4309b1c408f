(module (func $f (export "first") (export "second") (param i64) (result i64)
    (i64.clz (local.get 0))))
;; enter 0 export "first" i64:1
;; leave i64:63
;; enter 0 export "first" i64:-1
;; leave i64:0
