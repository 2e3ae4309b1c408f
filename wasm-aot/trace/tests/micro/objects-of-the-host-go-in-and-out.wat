(module (import "h" "new" (func $new (param externref) (result externref)))
    (import "h" "see" (func $see (param externref i32)))
    (global $g (export "g") (mut externref) (ref.null extern))
    (func (export "run") (param externref externref) (result externref i32 i32) (local $new externref)
        (local.set $new (call $new (local.get 0)))
        (call $see (select (result externref) (local.get $new) (local.get 1) (i32.const 1)) (ref.is_null (local.get 1)))
        (block (result externref) (local.get $new))
        (ref.is_null (global.get $g)) (global.set $g (local.get 1)) (ref.is_null (global.get $g))))
;; enter 2 export "run" extern:0 extern:null
;; call 0 extern:0
;; return extern:1
;; call 1 extern:1 i32:1
;; global 0 extern:0
;; return
;; leave extern:1 i32:0 i32:1
