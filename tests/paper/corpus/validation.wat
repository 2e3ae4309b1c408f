;; Four functions that call `add` equally often, by other ways: what a profile tells of them has to
;; be the same.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (memory (export "memory") 1)
  (func $add (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
  (func $f_main_1 (result i32) (local $i i32) (local $sum i32)
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (call $add (i32.const 1) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_s (local.get $i) (i32.const MAIN))))
    (local.get $sum))
  (func $f_main_2 (result i32) (local $i i32) (local $sum i32)
    (local.set $i (i32.const MAIN))
    (loop $next
      (local.set $i (i32.sub (local.get $i) (i32.const 1)))
      (local.set $sum (i32.add (local.get $sum) (call $add (i32.const 1) (local.get $i))))
      (br_if $next (local.get $i)))
    (local.get $sum))
  (func $f_half (param $sum i32) (result i32) (local $i i32)
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (call $add (i32.const 1) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_s (local.get $i) (i32.const HALF))))
    (local.get $sum))
  (func $f_quarter (param $sum i32) (result i32) (local $i i32)
    (loop $next
      (local.set $sum (i32.add (local.get $sum) (call $add (i32.const 1) (local.get $i))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $next (i32.lt_s (local.get $i) (i32.const QUARTER))))
    (local.get $sum))
  (func $f_half_2 (result i32)
    (i32.add (call $f_quarter (i32.const 1)) (call $f_quarter (i32.const 2))))
  (func $f_main_3 (result i32) (i32.add (call $f_half (i32.const 1)) (call $f_half (i32.const 2))))
  (func $f_main_4 (result i32)
    (i32.add (i32.add (call $f_quarter (i32.const 1)) (call $f_quarter (i32.const 2)))
      (i32.add (call $f_quarter (i32.const 3)) (call $f_quarter (i32.const 4)))))
  (func $main (result i32)
    (i32.sub
      (i32.add
        (i32.sub (i32.add (i32.sub (call $f_main_1) (call $f_main_2)) (call $f_main_3))
          (call $f_main_4))
        (call $f_half (i32.const 0)))
      (i32.add (call $f_half_2) (call $f_quarter (i32.const 0)))))
  (func (export "_start") (drop (call $main))))
