(module (import "h" "base" (global $base i32)) (import "h" "f" (global $f funcref)) (memory 1)
    (table $t 3 funcref) (global $own i32 (global.get $base)) (data (global.get $base) "x")
    (elem (table $t) (i32.const 0) funcref (item (ref.null func)) (item (global.get $f)))
    (func (export "run") (result i32 i32 i32) (i32.load8_u (i32.const 40)) (global.get $own)
        (ref.is_null (table.get $t (i32.const 1)))))
;; global 0 i32:40
;; global 1 func:null
;; enter 0 export "run"
;; leave i32:120 i32:40 i32:1
