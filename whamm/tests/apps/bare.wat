;; A command without a memory.
(module (func (export "_start") nop))
