(module (memory (export "m") (export "also m") 1)
    (func (export "run") (result i32) (i32.load16_u offset=2 (i32.const 2))))
;; write 0 4 3412
;; enter 0 export "run"
;; leave i32:4660
