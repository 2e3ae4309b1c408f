(module (import "h" "f" (func $f (param f64) (result f64))) (export "f" (func $f))
    (func (export "run") (param f64) (result f64) (call $f (f64.sqrt (local.get 0)))))
;; enter 1 export "run" f64:0x4010000000000000
;; call 0 f64:0x4000000000000000
;; return f64:0xfff0000000000000
;; leave f64:0xfff0000000000000
