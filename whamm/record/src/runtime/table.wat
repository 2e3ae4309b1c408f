  ;; Table {T}: $t{T} has for each element the function's index and 1.
  (func (export "element:{T}") (param $i i32) (param $function i32) (local $a i32) (local $more i32)
    (local.set $a (i32.shl (local.get $i) (i32.const 2)))
    (local.set $more (i32.sub (i32.add (i32.shr_u (local.get $a) (i32.const 16)) (i32.const 1)) (memory.size $t{T})))
    (if (i32.gt_s (local.get $more) (i32.const 0)) (then
      (if (i32.eq (memory.grow $t{T} (local.get $more)) (i32.const -1)) (then (return)))))
    (if (i32.eq (i32.load $t{T} (local.get $a)) (local.get $function)) (then {SAME}))
    (i32.store $t{T} (local.get $a) (local.get $function))
    (call $begin (i32.const {KIND}))
    (call $number (i64.const {T}))
    (call $number (i64.extend_i32_u (local.get $i)))
    (call $byte (i32.const 0x70))
    (call $number (i64.extend_i32_u (local.get $function))))
