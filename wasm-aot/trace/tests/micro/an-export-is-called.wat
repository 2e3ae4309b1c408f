(module (func (export "f")))
;; enter 0 export "f"
;; leave
