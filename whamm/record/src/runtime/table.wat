  ;; Table {T} of functions: $t{T} has for each element the function's index and 1.
  (func $element{T} (export "element:{T}") (param $i i32) (param $function i32) (param $writes i32)
    (local $a i32) (local $more i32)
    (local.set $a (i32.shl (local.get $i) (i32.const 2)))
    (local.set $more (i32.sub (i32.add (i32.shr_u (local.get $a) (i32.const 16)) (i32.const 1)) (memory.size $t{T})))
    (if (i32.gt_s (local.get $more) (i32.const 0)) (then
      (if (i32.eq (memory.grow $t{T} (local.get $more)) (i32.const -1)) (then (return)))))
    (if (i32.eq (i32.load $t{T} (local.get $a)) (local.get $function)) (then {SAME}))
    (i32.store $t{T} (local.get $a) (local.get $function))
    (if (local.get $writes) (then {SAME}))
    (call $begin (select (i32.const 0x43) (i32.const {KIND}) (local.get $writes)))
    (call $number (i64.const {T}))
    (call $number (i64.extend_i32_u (local.get $i)))
    (call $function (local.get $function)))
  ;; Functions that a segment puts there, when the program begins: where they are, and how many bytes.
  (func (export "place:{T}") (param $i i32) (param $from i32) (param $bytes i32)
    (block $end (loop $next
      (br_if $end (i32.eqz (local.get $bytes)))
      (call $element{T} (local.get $i) (i32.load $own (local.get $from)) (i32.const 1))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (local.set $from (i32.add (local.get $from) (i32.const 4)))
      (local.set $bytes (i32.sub (local.get $bytes) (i32.const 4)))
      (br $next))))
