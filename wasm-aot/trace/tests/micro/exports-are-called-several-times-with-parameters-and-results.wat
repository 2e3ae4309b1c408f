(module (func (export "add") (param i32 i64) (result i64)
    (i64.add (i64.extend_i32_s (local.get 0)) (local.get 1)))
    (func (export "two") (param f32) (result f32 f64) (local.get 0) (f64.promote_f32 (local.get 0))))
;; enter 0 export "add" i32:-1 i64:9007199254740993
;; leave i64:9007199254740992
;; enter 1 export "two" f32:0x3f800000
;; leave f32:0x3f800000 f64:0x3ff0000000000000
;; enter 0 export "add" i32:1 i64:9223372036854775807
;; leave i64:-9223372036854775808
