(module (import "h" "f" (func $f)) (table $t (export "t") 4 10 externref) (table $own 4 externref)
    (elem $none externref (ref.null extern) (ref.null extern))
    (func (export "run") (param externref) (result i32 i32 i32 externref i32 i32 i32 i32)
        (table.set $t (i32.const 1) (local.get 0)) (call $f)
        (ref.is_null (table.get $t (i32.const 0)))
        (table.grow $t (local.get 0) (i32.const 2))
        (table.copy $own $t (i32.const 0) (i32.const 2) (i32.const 2))
        (ref.is_null (table.get $own (i32.const 1)))
        (table.get $own (i32.const 1))
        (call $f)
        (ref.is_null (table.get $t (i32.const 1)))
        (table.fill $t (i32.const 0) (local.get 0) (i32.const 3)) (ref.is_null (table.get $t (i32.const 2)))
        (table.init $t $none (i32.const 5) (i32.const 0) (i32.const 2)) (ref.is_null (table.get $t (i32.const 6)))
        (table.copy $t $own (i32.const 2) (i32.const 0) (i32.const 1)) (ref.is_null (table.get $t (i32.const 2)))))
;; enter 1 export "run" extern:0
;; call 0
;; grow-table 0 1 extern:null
;; element 0 0 extern:1
;; element 0 3 extern:1
;; return
;; call 0
;; element 0 1 extern:null
;; return
;; leave i32:0 i32:5 i32:0 extern:1 i32:1 i32:0 i32:1 i32:1
