(module (import "h" "f" (func $f)) (memory (export "m") 1)
    (func (export "get") (param i32) (result i64) (i64.load (local.get 0)))
    (func (export "run") (call $f)
        (i32.store8 (i32.const 0) (i32.const 1)) (i32.store16 (i32.const 2) (i32.const 2))
        (i32.store (i32.const 4) (i32.const 3)) (i64.store32 (i32.const 9) (i64.const 5))
        (f32.store offset=4 (i32.const 12) (f32.const 1)) (call $f)))
;; enter 2 export "run"
;; call 0
;; write 0 0 ffffffffffffffff
;; write 0 8 eeeeeeeeeeeeeeee
;; return
;; call 0
;; enter 1 export "get" i32:0
;; leave i64:12885098241
;; enter 1 export "get" i32:8
;; leave i64:-1229783964458154514
;; enter 1 export "get" i32:16
;; leave i64:1065353216
;; return
;; leave
