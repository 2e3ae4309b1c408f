      ;; Contexts that turn out to be too short are only counted from then on.
      (call $read_clock)
      (local.set $spent (i64.sub (global.get $last) (i64.load $own offset=32 (local.get $at))))
      ;; One call may have waited for a processor for most of its time.
      (if (i64.gt_s (local.get $spent) (i64.shl (global.get $least) (i64.const 6)))
        (then (local.set $spent (i64.shl (global.get $least) (i64.const 6)))))
      (local.set $spent (i64.add (i64.load $own offset=40 (local.get $at)) (local.get $spent)))
      (local.set $timed (i32.add (i32.load $own offset=52 (local.get $at)) (i32.const 1)))
      (i64.store $own offset=40 (local.get $at) (local.get $spent))
      (i32.store $own offset=52 (local.get $at) (local.get $timed))
      (if (i32.ge_u (local.get $timed) (i32.const 8)) (then
        (if (i64.lt_s (local.get $spent) (i64.mul (i64.extend_i32_u (local.get $timed)) (global.get $least)))
          (then (i32.store $own offset=48 (local.get $at) (i32.const 0))))))
