        ;; WASI writes the time into the memory that it knows, which is ours.
        (if (i32.eqz (call $clock_time_get (i32.const 1) (i64.const 1) (i32.const 336)))
          (then (local.set $now (i64.load $own (i32.const 336)))))
