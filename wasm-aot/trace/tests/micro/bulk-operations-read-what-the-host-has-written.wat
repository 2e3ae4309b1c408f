(module (import "h" "f" (func $f)) (memory (export "m") 1) (data $d "\01\02\03\04")
    (func (export "run") (result i32 i32)
    (call $f) (memory.copy (i32.const 100) (i32.const 0) (i32.const 8))
    (memory.init $d (i32.const 4) (i32.const 0) (i32.const 2)) (data.drop $d)
    (memory.fill (i32.const 0) (i32.const 7) (i32.const 1))
    (i32.load (i32.const 0)) (i32.load (i32.const 104))))
;; enter 1 export "run"
;; call 0
;; write 0 0 1111111122222222333333334444444455
;; return
;; leave i32:286331143 i32:572662306
