(module (memory (export "m") 1) (func (export "get") (result i32) (i32.load (i32.const 16))))
;; enter 0 export "get"
;; leave i32:0
;; write 0 16 ff
;; enter 0 export "get"
;; leave i32:255
;; write 0 16 00
;; write 0 17 01
