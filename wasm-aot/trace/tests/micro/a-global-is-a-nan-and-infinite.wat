(module (import "h" "n" (global $n f64)) (import "h" "i" (global $i f32)) (global $m (export "m") (mut f64) (f64.const inf))
    (func (export "run") (result i64 i32 f64)
        (i64.reinterpret_f64 (global.get $n)) (i32.reinterpret_f32 (global.get $i)) (global.get $m)))
;; global 0 f64:0xfff8000000000123
;; global 1 f32:0xff800000
;; enter 0 export "run"
;; leave i64:-2251799813684957 i32:-8388608 f64:0x7ff0000000000000
;; global 2 f64:0xfff0000000000000
;; enter 0 export "run"
;; leave i64:-2251799813684957 i32:-8388608 f64:0xfff0000000000000
