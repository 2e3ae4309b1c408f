  ;; Table {T} of host objects: $t{T} has for each element whether there is one. A program can ask for nothing else.
  (func (export "object:{T}") (param $i i32) (param $is i32) (param $writes i32) (local $more i32)
    (local.set $more (i32.sub (i32.add (i32.shr_u (local.get $i) (i32.const 16)) (i32.const 1)) (memory.size $t{T})))
    (if (i32.gt_s (local.get $more) (i32.const 0)) (then
      (if (i32.eq (memory.grow $t{T} (local.get $more)) (i32.const -1)) (then (return)))))
    (if (i32.eq (i32.load8_u $t{T} (local.get $i)) (local.get $is)) (then {SAME}))
    (i32.store8 $t{T} (local.get $i) (local.get $is))
    (if (local.get $writes) (then {SAME}))
    (call $begin (select (i32.const 0x43) (i32.const {KIND}) (local.get $writes)))
    (call $number (i64.const {T}))
    (call $number (i64.extend_i32_u (local.get $i)))
    (call $object (local.get $is)))
