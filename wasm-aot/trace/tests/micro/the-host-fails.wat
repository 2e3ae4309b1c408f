(module (import "h" "f" (func $f)) (func (export "run") (call $f)))
;; enter 1 export "run"
;; call 0
;; return trap "no such file"
;; leave trap "no such file"
