;; Direct calls of functions with nodes.

  ;; The callee's node is timed or not known yet; `slot` is where the caller's node has it. Gives the callee's node.
  ;; Engines do not inline calls, and a call that is timed is to take little beside the clock: so what `open` does is
  ;; written out.
  (func $enter (export "enter") (param $node i32) (param $slot i32) (param $id i32) (result i32) (local $at i32)
{if time_all}
    (local $cost i64) (local $now i64) (local $lent i64) (local $passed i64)
{end}
    (local.set $slot (i32.add (local.get $node) (local.get $slot)))
    (if (i32.eqz (local.tee $at (i32.load $own offset=4 (local.get $slot)))) (then
      (local.set $at (call $child (local.get $node) (local.get $id)))
      (i32.store $own offset=4 (local.get $slot) (local.get $at))))
    (i64.store $own offset=16 (local.get $at) (i64.add (i64.load $own offset=16 (local.get $at)) (i64.const 1)))
{if tails}
    (i32.store $own offset=72 (local.get $at) (i32.const 0))
{end}
    (if (i32.load $own offset=48 (local.get $at))
      (then
{if time_all}
        (local.set $cost (global.get $of_caller))
{reading}
{else}
        (call $read_clock (global.get $of_caller))
        (i64.store $own offset=32 (local.get $at) (global.get $last))
{end}
      )
      (else (i32.store $own (local.get $slot) (local.get $at))))
    (global.set $cur (local.get $at))
    (local.get $at))

  ;; The node `at` that was called from `node` has returned.
  (func $leave (export "leave") (param $node i32) (param $at i32)
{if time_all}
    (local $cost i64) (local $now i64) (local $lent i64) (local $passed i64)
{end}
{if tails}
    (local $next i32)
    (block $last (loop $tails
      (br_if $last (i32.eqz (local.tee $next (i32.load $own offset=72 (local.get $at)))))
      (i32.store $own offset=72 (local.get $at) (i32.const 0))
{if tails_indirectly}
      (if (i32.eq (local.get $next) (i32.const 1)) (then
        (call $foreign (local.get $node))
        (global.set $cur (local.get $node))
        (return)))
{end}
      (local.set $at (local.get $next))
      (br $tails)))
{end}
{if time_all}
    (if (i32.load $own offset=48 (local.get $at)) (then
      (local.set $cost (global.get $of_callee))
{reading}
    ))
{else}
    (call $close (local.get $at))
{end}
    (global.set $cur (local.get $node)))

  ;; A call of that node has ended. Contexts that turn out to be too short are only counted from then on.
  (func $close (param $at i32)
{if time_all}
    (if (i32.load $own offset=48 (local.get $at)) (then (call $read_clock (global.get $of_callee)))))
{else}
    (local $spent i64) (local $timed i32)
    (if (i32.load $own offset=48 (local.get $at)) (then
      (call $read_clock (global.get $of_callee))
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
          (then (i32.store $own offset=48 (local.get $at) (i32.const 0)))))))))
{end}
