    ;; A reading of the clock. The time since the reading before, less what a reading takes, is charged to the current
    ;; node; what passes outside of all functions to the host's, which no report shows. A clock that goes back charges
    ;; nothing.
    (local.set $now (global.get $last))
{if start}
    (if (i32.eqz (global.get $quiet)) (then
{now}
    ))
{else}
{now}
{end}
    (local.set $passed (i64.sub (i64.sub (local.get $now) (global.get $last)) (global.get $reading)))
    (global.set $last (local.get $now))
    (if (i64.gt_s (local.get $passed) (i64.const 0)) (then
      (i64.store $own offset=24 (global.get $cur)
        (i64.add (i64.load $own offset=24 (global.get $cur)) (local.get $passed)))))
{if file}
    (if (i64.ge_s (local.get $now) (global.get $next_save)) (then (call $save)))
{end}
