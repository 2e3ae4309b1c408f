  (func $print
    (call $text (i32.const 0))
    (call $flush))
  (func $save)
  (func $save_after (param i64))
