(module (import "h" "f" (func $f (param i64) (result i64)))
    (func (export "run") (param i64) (result i64) (i64.add (call $f (local.get 0)) (i64.const 1))))
;; enter 1 export "run" i64:9223372036854775807
;; call 0 i64:9223372036854775807
;; return i64:-9223372036854775808
;; leave i64:-9223372036854775807
;; enter 1 export "run" i64:9007199254740993
;; call 0 i64:9007199254740993
;; return i64:-9007199254740993
;; leave i64:-9007199254740992
