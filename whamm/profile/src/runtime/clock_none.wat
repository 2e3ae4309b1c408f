  (func $now (result i64) (i64.const 0))
