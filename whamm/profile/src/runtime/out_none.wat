  (func $flush (global.set $fill (i32.const 0)))
