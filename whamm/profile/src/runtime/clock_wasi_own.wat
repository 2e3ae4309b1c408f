  ;; WASI writes the time into the memory that it knows, which is ours.
  (func $now (result i64)
    (if (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 336)) (then (return (global.get $last))))
    (i64.load $own (i32.const 336)))
