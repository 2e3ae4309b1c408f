        ;; The embedder's clock tells milliseconds.
        (local.set $now (i64.trunc_sat_f64_s (f64.mul (call $get_time) (f64.const 1000000))))
