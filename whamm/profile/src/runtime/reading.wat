    ;; A reading of the clock. The time since the reading before, less the cost of that, is charged to the current node;
    ;; what passes outside of all functions to the host's, which no report shows. A clock that goes back charges
    ;; nothing.
    (local.set $now (global.get $last))
{if start}
    (if (i32.eqz (global.get $quiet)) (then
{now}
    ))
{else}
{now}
{end}
    (local.set $passed (i64.sub (i64.sub (local.get $now) (global.get $last)) (local.get $cost)))
    (global.set $last (local.get $now))
    (if (i64.gt_s (local.get $passed) (i64.const 0)) (then
      (i64.store $own offset=24 (global.get $cur)
        (i64.add (i64.load $own offset=24 (global.get $cur)) (local.get $passed)))))
    (if (i64.eqz (i64.shr_u (i64.mul (local.get $now) (i64.const 0x9e3779b97f4a7c15)) (i64.const 54)))
      (then (call $sample)))
{if file}
    (if (i64.ge_s (local.get $now) (global.get $next_save)) (then (call $save)))
{end}
