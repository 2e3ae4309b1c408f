(module (import "h" "m" (memory 1)) (data (i32.const 65536) "\07")
    (func (export "run") (result i32 i32) (memory.size) (i32.load8_u (i32.const 65536))))
;; grow 0 2
;; write 0 0 01
;; write 0 65536 07
;; enter 0 export "run"
;; leave i32:3 i32:7
