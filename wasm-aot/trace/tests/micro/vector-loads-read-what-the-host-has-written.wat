(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "run") (result v128 v128 v128) (call $f) (v128.load (i32.const 0))
        (v128.load8x8_s (i32.const 8)) (v128.load8_lane 2 (i32.const 15) (v128.const i64x2 0 0))))
;; enter 1 export "run"
;; call 0
;; write 0 0 000102030405060708090a0b0c0d0eff
;; return
;; leave v128:0xff0e0d0c0b0a09080706050403020100 v128:0xffff000e000d000c000b000a00090008 v128:0x00000000000000000000000000ff0000
