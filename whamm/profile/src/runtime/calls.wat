;; Direct calls of functions with nodes.

  ;; The callee's node is timed or not known yet; `slot` is where the caller's node has it. Gives the callee's node.
  ;; Engines do not inline calls, and a call that is timed is to take little beside the clock: so what `open` does is
  ;; written out.
  (func $enter (export "enter") (param $node i32) (param $slot i32) (param $id i32) (result i32) (local $at i32)
    {READING_LOCALS}
    (local.set $slot (i32.add (local.get $node) (local.get $slot)))
    (if (i32.eqz (local.tee $at (i32.load $own offset=4 (local.get $slot)))) (then
      (local.set $at (call $child (local.get $node) (local.get $id)))
      (i32.store $own offset=4 (local.get $slot) (local.get $at))))
    (i64.store $own offset=16 (local.get $at) (i64.add (i64.load $own offset=16 (local.get $at)) (i64.const 1)))
    (i32.store $own offset=72 (local.get $at) (i32.const 0))
    (if (i32.load $own offset=48 (local.get $at))
      (then
{ENTERED}      )
      (else (i32.store $own (local.get $slot) (local.get $at))))
    (global.set $cur (local.get $at))
    (local.get $at))

  ;; The node `at` that was called from `node` has returned.
  (func $leave (export "leave") (param $node i32) (param $at i32) (local $next i32) 
    (local $spent i64) (local $timed i32) {READING_LOCALS}
    (block $last (loop $tails
      (br_if $last (i32.eqz (local.tee $next (i32.load $own offset=72 (local.get $at)))))
      (i32.store $own offset=72 (local.get $at) (i32.const 0))
      (if (i32.eq (local.get $next) (i32.const 1)) (then
        (global.set $cur (local.get $node))
        (return)))
      (local.set $at (local.get $next))
      (br $tails)))
    (if (i32.load $own offset=48 (local.get $at)) (then
{LEFT}    ))
    (global.set $cur (local.get $node)))
