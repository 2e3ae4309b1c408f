(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (result i32 i32 i32 i32 i32 i64 i64 i64 i64 i64 i64 i64 f32 f64) (call $f)
        (i32.load8_s (i32.const 0)) (i32.load8_u (i32.const 1)) (i32.load16_s (i32.const 2))
        (i32.load16_u (i32.const 4)) (i32.load (i32.const 8)) (i64.load8_s (i32.const 0))
        (i64.load8_u (i32.const 1)) (i64.load16_s (i32.const 2)) (i64.load16_u (i32.const 4))
        (i64.load32_s (i32.const 8)) (i64.load32_u (i32.const 8)) (i64.load (i32.const 16))
        (f32.load (i32.const 24)) (f64.load (i32.const 32))))
;; enter 1 export "run"
;; call 0
;; write 0 0 80ff0080ffff0000000000f0
;; write 0 16 00000000000000800100807f00000000
;; write 0 32 0200000000000cf0ff
;; return
;; leave i32:-128 i32:255 i32:-32768 i32:65535 i32:-268435456 i64:-128 i64:255 i64:-32768 i64:65535 i64:-268435456 i64:4026531840 i64:-9223372036854775808 f32:0x7f800001 f64:0xf00c000000000002
