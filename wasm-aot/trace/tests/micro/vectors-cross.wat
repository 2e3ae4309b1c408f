(module (import "h" "f" (func $f (param v128) (result v128)))
    (func (export "run") (param v128) (result v128) (call $f (i8x16.add (local.get 0) (local.get 0)))))
;; enter 1 export "run" v128:0x01010101010101010101010101010101
;; call 0 v128:0x02020202020202020202020202020202
;; return v128:0xffffffffffffffffffffffffffffffff
;; leave v128:0xffffffffffffffffffffffffffffffff
