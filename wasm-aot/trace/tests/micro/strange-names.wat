(module (import "h;\n\u{1F600}" "\"" (func $f)) (func (export "a;b,\n\"c\"") (call $f)))
;; enter 1 export "a;b,\x0a\"c\""
;; call 0
;; return
;; leave
