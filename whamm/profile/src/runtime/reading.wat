    ;; A reading of the clock.
    (block $charged
      (local.set $now (global.get $last))
{if start}
      (if (i32.eqz (global.get $quiet)) (then
{now}
      ))
{else}
{now}
{end}
      (local.set $passed (i64.sub (local.get $now) (global.get $last)))
      (global.set $last (local.get $now))
      ;; What passes outside of all functions is charged to none; a clock that goes back tells nothing.
      (br_if $charged (i32.eq (global.get $cur) (i32.const 128)))
      (br_if $charged (i64.le_s (local.get $passed) (i64.const 0)))
      (local.set $cost
        (select (local.get $passed) (global.get $reading) (i64.lt_s (local.get $passed) (global.get $reading))))
      (global.set $measuring (i64.add (global.get $measuring) (local.get $cost)))
      (i64.store $own offset=24 (global.get $cur)
        (i64.add (i64.load $own offset=24 (global.get $cur)) (i64.sub (local.get $passed) (local.get $cost))))
{if file}
      (if (i64.ge_s (global.get $last) (global.get $next_save)) (then (call $save)))
{end}
    )
