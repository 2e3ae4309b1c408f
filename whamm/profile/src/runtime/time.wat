;; Time: each reading of the clock charges what has passed since the one before to the node that runs.

  (global $last (mut i64) (i64.const 0))
{if start}
  (global $quiet (mut i32) (i32.const 0))
{end}
  (global $calibrated (mut i32) (i32.const 0))
  ;; What a reading takes, and when that was known.
  (global $reading (mut i64) (i64.const 0))
  (global $begin (mut i64) (i64.const 0))
  ;; Calls that take less are only counted.
  (global $least (mut i64) (i64.const 0))

  (func $clock (result i64) (local $now i64) (local $lent i64)
    (local.set $now (global.get $last))
{if start}
      (if (i32.eqz (global.get $quiet)) (then
{now}
      ))
{else}
{now}
{end}
    (local.get $now))

  ;; What all readings have taken, and files that were written: the time that is charged to no node.
  (func $measuring (result i64) (local $all i64)
    (local.set $all (i64.sub
      (i64.sub (global.get $last) (global.get $begin)) (i64.load $own offset=64 (i32.const 128))))
    (select (local.get $all) (i64.const 0) (i64.gt_s (local.get $all) (i64.const 0))))

  (func $read_clock (local $now i64) (local $lent i64) (local $passed i64)
{reading}
  )

  ;; The least of four means of sixteen readings, once; a call of which timing would be more than a fiftieth is not worth it.
  (func $calibrate (local $round i32) (local $n i32) (local $begin i64) (local $mean i64)
    (if (i32.or (global.get $calibrated) (i32.eqz (global.get $has_clock))) (then (return)))
{if start}
    (if (global.get $quiet) (then (return)))
{end}
    (global.set $calibrated (i32.const 1))
    (global.set $reading (i64.const 0x7fffffffffffffff))
    (loop $rounds
      (local.set $n (i32.const 16))
      (local.set $begin (call $clock))
      (loop $again
        (global.set $last (call $clock))
        (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
      (local.set $mean (i64.div_s (i64.sub (global.get $last) (local.get $begin)) (i64.const 16)))
      (if (i64.lt_s (local.get $mean) (i64.const 0)) (then (local.set $mean (i64.const 0))))
      (if (i64.lt_s (local.get $mean) (global.get $reading)) (then (global.set $reading (local.get $mean))))
      (br_if $rounds (i32.lt_u (local.tee $round (i32.add (local.get $round) (i32.const 1))) (i32.const 4))))
    (global.set $begin (global.get $last))
{if file}
    (call $save_after (i64.const 0))
{end}
    (if (i32.eqz (global.get $time_all)) (then
      (global.set $least (i64.mul (i64.const 100)
        (select (global.get $reading) (i64.const 10) (i64.gt_s (global.get $reading) (i64.const 10))))))))
