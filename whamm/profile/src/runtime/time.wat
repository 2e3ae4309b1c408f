;; Time: each reading of the clock charges what has passed since the one before to the node that runs.

  (global $last (mut i64) (i64.const 0))
{if start}
  (global $quiet (mut i32) (i32.const 0))
{end}
  (global $calibrated (mut i32) (i32.const 0))
  ;; What a reading takes, in all, and in 64ths; and when that was known.
  (global $reading (mut i64) (i64.const 0))
  (global $reading_64ths (mut i64) (i64.const 0))
  (global $begin (mut i64) (i64.const 0))
  ;; What a call that is timed costs its caller and its callee: a reading each, and what `enter` and `leave` do beside.
  (global $of_caller (mut i64) (i64.const 0))
  (global $of_callee (mut i64) (i64.const 0))
{if time_all}
  (global $caller_more (mut i64) (i64.const 0))
  (global $callee_more (mut i64) (i64.const 0))
{end}
  ;; Whether readings may be nearer to one another than the clock's step.
  (global $is_coarse (mut i32) (i32.const 0))
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

  (func $read_clock (param $cost i64) (local $now i64) (local $lent i64) (local $passed i64)
{reading}
  )

  ;; Once in about a thousand readings another one follows at once: what that takes on a machine that is busy now.
  ;; A reading that waited for a processor counts as four ordinary ones.
  (func $sample (local $took i64) (local $now i64)
    (local.set $now (call $clock))
    (local.set $took (i64.sub (local.get $now) (global.get $last)))
    (global.set $last (local.get $now))
    (if (i32.or (global.get $is_coarse) (i64.le_s (local.get $took) (i64.const 0))) (then (return)))
    (local.set $took (i64.shl (local.get $took) (i64.const 6)))
    (local.set $now (i64.shl (global.get $reading_64ths) (i64.const 2)))
    (if (i64.gt_s (local.get $took) (local.get $now)) (then (local.set $took (local.get $now))))
    (call $set_reading (i64.add (global.get $reading_64ths)
      (i64.shr_s (i64.sub (local.get $took) (global.get $reading_64ths)) (i64.const 5)))))

  (func $set_reading (param $in_64ths i64)
    (global.set $reading_64ths (local.get $in_64ths))
    (global.set $reading (i64.shr_s (local.get $in_64ths) (i64.const 6)))
{if time_all}
    (global.set $of_caller (i64.add (global.get $reading) (global.get $caller_more)))
    (global.set $of_callee (i64.add (global.get $reading) (global.get $callee_more)))
{else}
    (global.set $of_caller (global.get $reading))
    (global.set $of_callee (global.get $reading))
{end}
  )

{if time_all}
  ;; What a call of a function that does nothing costs beside the readings: the least of eight means of 32, in a tree of
  ;; two nodes that is thrown away.
  (func $calibrate_calls
    (local $from i32) (local $node i32) (local $at i32) (local $round i32) (local $n i32)
    (local $all i64) (local $least i64)
    (local.set $from (global.get $heap))
    (if (i32.eqz (local.tee $node (call $alloc (i32.const 168)))) (then (return)))
    (local.set $at (i32.add (local.get $node) (i32.const 88)))
    (i32.store $own offset=84 (local.get $node) (local.get $at))
    (i32.store $own offset=48 (local.get $at) (i32.const 1))
    (local.set $least (i64.const 0x7fffffffffffffff))
    (loop $rounds
      (global.set $cur (local.get $node))
      (call $read_clock (i64.const 0))
      (i64.store $own offset=24 (local.get $node) (i64.const 0))
      (i64.store $own offset=24 (local.get $at) (i64.const 0))
      (local.set $n (i32.const 32))
      (loop $again
        (drop (call $enter (local.get $node) (i32.const 80) (i32.const 0)))
        (call $leave (local.get $node) (local.get $at))
        (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
      (local.set $all (i64.add (i64.load $own offset=24 (local.get $node)) (i64.load $own offset=24 (local.get $at))))
      (if (i64.lt_s (local.get $all) (local.get $least)) (then
        (local.set $least (local.get $all))
        (global.set $caller_more (i64.shr_s (i64.load $own offset=24 (local.get $node)) (i64.const 5)))
        (global.set $callee_more (i64.shr_s (i64.load $own offset=24 (local.get $at)) (i64.const 5)))))
      (br_if $rounds (i32.lt_u (local.tee $round (i32.add (local.get $round) (i32.const 1))) (i32.const 8))))
    (call $set_reading (global.get $reading_64ths))
    (global.set $cur (i32.const 128))
    (memory.fill $own (local.get $from) (i32.const 0) (i32.const 168))
    (global.set $heap (local.get $from)))
{end}

  ;; The least of four means of sixteen readings, once; a call of which timing would be more than a fiftieth is not worth it.
  (func $calibrate (local $round i32) (local $n i32) (local $begin i64) (local $mean i64) (local $now i64)
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
        (local.set $now (call $clock))
        (if (i64.eq (local.get $now) (global.get $last)) (then (global.set $is_coarse (i32.const 1))))
        (global.set $last (local.get $now))
        (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
      (local.set $mean (i64.div_s (i64.sub (global.get $last) (local.get $begin)) (i64.const 16)))
      (if (i64.lt_s (local.get $mean) (i64.const 0)) (then (local.set $mean (i64.const 0))))
      (if (i64.lt_s (local.get $mean) (global.get $reading)) (then (global.set $reading (local.get $mean))))
      (br_if $rounds (i32.lt_u (local.tee $round (i32.add (local.get $round) (i32.const 1))) (i32.const 4))))
    (call $set_reading (i64.shl (global.get $reading) (i64.const 6)))
{if time_all}
    (if (i32.eqz (global.get $is_coarse)) (then (call $calibrate_calls)))
{end}
    (global.set $begin (global.get $last))
{if file}
    (call $save_after (i64.const 0))
{end}
    (if (i32.eqz (global.get $time_all)) (then
      (global.set $least (i64.mul (i64.const 100)
        (select (global.get $reading) (i64.const 10) (i64.gt_s (global.get $reading) (i64.const 10))))))))
