(module (memory (export "m") 1) (func (export "size") (result i32) (memory.size)))
;; enter 0 export "size"
;; leave i32:1
;; grow 0 3
;; grow 0 1
;; enter 0 export "size"
;; leave i32:5
