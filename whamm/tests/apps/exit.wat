;; Ends through the system, from within a function that is called through a table.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "hello\n")
  (table funcref (elem $exit))
  (func $say
    (i32.store (i32.const 0) (i32.const 16)) (i32.store (i32.const 4) (i32.const 6))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (call $say) (call $say)
    (call_indirect (param i32) (i32.const 3) (i32.const 0))
    (call $say)))
