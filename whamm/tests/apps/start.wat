;; Runs at instantiation, and has nothing that could be called.
(module
  (import "env" "log" (func $log (param i32)))
  (func $main (call $log (i32.const 1)) (block (call $log (i32.const 2))) (if (i32.const 1) (then (call $log (i32.const 3)))))
  (start $main))
