  ;; Memory {K}: $m{K} is the program's, $s{K} what the trace knows of it.

  ;; Whether an access is inside of the memory.
  (func $fits{K} (param $a i64) (param $n i64) (result i32) (local $size i64)
    (local.set $size (i64.shl {SIZE} (i64.const 16)))
    (if (i64.gt_u (local.get $n) (local.get $size)) (then (return (i32.const 0))))
    (i64.le_u (local.get $a) (i64.sub (local.get $size) (local.get $n))))
  ;; The bytes of an event: at most so many that there is room. What is found behind what was found last, with nothing
  ;; between, is one event with it.
  (func $bytes{K} (param $kind i32) (param $a i64) (param $n i64)
    (if (i32.ne (local.get $kind) (i32.const 0x20)) (then
      (call $begin (local.get $kind))
      (call $number (i64.const {K}))
      (call $number (local.get $a))
      (call $number (local.get $n)))
    (else
      (if (i32.eqz (call $goes_on (i32.const {K}) (local.get $a) (i32.wrap_i64 (local.get $n)))) (then
        (call $begin (local.get $kind))
        (call $number (i64.const {K}))
        (call $number (local.get $a))
        (call $open_length (i32.const {K}))))
      (call $longer (local.get $a) (i32.wrap_i64 (local.get $n)))))
    (memory.copy $own $m{K} (global.get $at) {A} (i32.wrap_i64 (local.get $n)))
    (global.set $at (i32.add (global.get $at) (i32.wrap_i64 (local.get $n)))))
