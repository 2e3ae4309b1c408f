  ;; A type of functions of the host: all have one index, from the first time that one of them is seen. It returns the
  ;; index and 1.
  (global $host{N} (mut i32) (i32.const 0))
  (func (export "host:{N}") (result i32)
    (if (i32.eqz (global.get $host{N})) (then
      (global.set $host{N} (global.get $next_host))
      (global.set $next_host (i32.add (global.get $next_host) (i32.const 1)))
      (call $insert (i32.const {AT}) (i32.const {LEN}))))
    (global.get $host{N}))
