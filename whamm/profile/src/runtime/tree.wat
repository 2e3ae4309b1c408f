;; The tree of calling contexts: a node for each function and each way to it.
;;
;;   0 function (index + 1; 0 is the host)   4 parent   8 next sibling   12 first child
;;  16 calls      24 time of its own, in nanoseconds     32 when the call that is active was entered
;;  40 time of timed calls, callees included, of each 64 times the least at most
;;  48 whether it is timed    52 timed calls, if not all calls are timed
;;  56, 64 what a report adds up: its own time and that of what is only counted below it, and all time
;;  72 what a tail call has put in the place of the call that is active: a node, 1 if that is no function of this module, 0 if there was none
;;  80 calls of small leaf functions, eight bytes each, then slots of direct callees, eight bytes each:
;;      0 the callee's node if that is not timed   4 its node, whether it is timed or not
;;
;; A node that is not timed is entered without a look at the clock, and nothing is done at its return.

  ;; The node of what runs now, or one below it that is not timed and has returned: the time of both is that of the same timed node.
  (global $cur (export "cur") (mut i32) (i32.const 128))
  ;; The node from which a function is called whose name the call does not say, with the lowest bit set if that is a
  ;; tail call; 0 if there is no such call.
  (global $via (export "via") (mut i32) (i32.const 0))
  ;; What a stand-in is called with beyond what its function takes: the caller's node, and where the function's slot is
  ;; in that.
  (global $from (export "from") (mut i32) (i32.const 0))
  (global $slot (export "slot") (mut i32) (i32.const 0))
  ;; Contexts for which there was no room: how often one was asked for.
  (global $folded (mut i32) (i32.const 0))

  ;; Full of zeros; 0 if there is no more.
  (func $alloc (param $n i32) (result i32) (local $at i32) (local $more i32)
    (local.set $at (global.get $heap))
    (local.set $more (i32.sub
      (i32.shr_u (i32.add (i32.add (local.get $at) (local.get $n)) (i32.const 65535)) (i32.const 16)) (memory.size $own)))
    (if (i32.gt_s (local.get $more) (i32.const 0)) (then
      (if (i32.eq (memory.grow $own (select (local.get $more) (i32.const 16) (i32.gt_u (local.get $more) (i32.const 16)))) (i32.const -1)) (then
        (if (i32.eq (memory.grow $own (local.get $more)) (i32.const -1)) (then (return (i32.const 0))))))))
    (global.set $heap (i32.add (local.get $at) (local.get $n)))
    (local.get $at))

  ;; The row of a function, made with the module: 0 its leaves' first number, 4 how many, 6 whether the options leave it
  ;; untimed, 8 a node's size, 12 its node where there is no room for another, 16 the node (with its lowest bit changed)
  ;; from which its gateway was called last, if that led to a node that is not timed, and 20 that node, 24 its name.
  (func $row (param $id i32) (result i32) (i32.add (global.get $rows) (i32.mul (local.get $id) (i32.const 28))))

  ;; A node below another one.
  (func $make (param $parent i32) (param $id i32) (result i32) (local $at i32)
    (if (i32.lt_u (global.get $heap) (global.get $node_end)) (then
      (local.set $at (call $alloc (i32.load $own offset=8 (call $row (local.get $id)))))))
    (if (i32.eqz (local.get $at)) (then (return (call $beyond (local.get $id)))))
    (call $hang (local.get $at) (local.get $parent) (local.get $id))
    ;; Below what is too short to be timed everything is.
    (i32.store $own offset=48 (local.get $at)
      (if (result i32)
        (i32.or (i32.eqz (global.get $has_clock)) (i32.load16_u $own offset=6 (call $row (local.get $id))))
        (then (i32.const 0))
        (else (i32.or (i32.or (global.get $time_all) (i32.load $own offset=48 (local.get $parent)))
          (i32.load16_u $own offset=6 (call $row (i32.load $own (local.get $parent))))))))
    (local.get $at))

  (func $hang (param $at i32) (param $parent i32) (param $id i32)
    (i32.store $own (local.get $at) (local.get $id))
    (i32.store $own offset=4 (local.get $at) (local.get $parent))
    (i32.store $own offset=8 (local.get $at) (i32.load $own offset=12 (local.get $parent)))
    (i32.store $own offset=12 (local.get $parent) (local.get $at)))

  ;; The node of a function where there is no room for another: all ways to it from here on.
  (func $beyond (param $id i32) (result i32) (local $at i32)
    (if (i32.eqz (global.get $folded)) (then (call $hang (i32.const 208) (i32.const 128) (i32.add (global.get $functions) (i32.const 1)))))
    (global.set $folded (i32.add (global.get $folded) (i32.const 1)))
    (call $count (i32.const 208))
    (local.set $at (i32.load $own offset=12 (call $row (local.get $id))))
    (if (i32.eqz (i32.load $own (local.get $at))) (then (call $hang (local.get $at) (i32.const 208) (local.get $id))))
    (local.get $at))

  ;; The node of a function that was called from another before, or 0: what was called last stands in front.
  (func $known (param $parent i32) (param $id i32) (result i32) (local $at i32) (local $before i32)
    (local.set $at (i32.load $own offset=12 (local.get $parent)))
    (block $end (loop $next
      (br_if $end (i32.eqz (local.get $at)))
      (br_if $end (i32.eq (i32.load $own (local.get $at)) (local.get $id)))
      (local.set $before (local.get $at))
      (local.set $at (i32.load $own offset=8 (local.get $at)))
      (br $next)))
    (if (i32.and (i32.ne (local.get $at) (i32.const 0)) (i32.ne (local.get $before) (i32.const 0))) (then
      (i32.store $own offset=8 (local.get $before) (i32.load $own offset=8 (local.get $at)))
      (i32.store $own offset=8 (local.get $at) (i32.load $own offset=12 (local.get $parent)))
      (i32.store $own offset=12 (local.get $parent) (local.get $at))))
    (local.get $at))

  (func $child (param $parent i32) (param $id i32) (result i32) (local $at i32)
    (local.set $at (call $known (local.get $parent) (local.get $id)))
    (if (local.get $at) (then (return (local.get $at))))
    (call $make (local.get $parent) (local.get $id)))

  ;; A call begins.
  (func $open (param $at i32)
    (call $count (local.get $at))
{if tails}
    (i32.store $own offset=72 (local.get $at) (i32.const 0))
{end}
    (if (i32.load $own offset=48 (local.get $at)) (then
      (call $read_clock (global.get $of_caller))
      (i64.store $own offset=32 (local.get $at) (global.get $last))))
    (global.set $cur (local.get $at)))

  (func $count (param $at i32)
    (i64.store $own offset=16 (local.get $at) (i64.add (i64.load $own offset=16 (local.get $at)) (i64.const 1))))

  ;; A direct call that has no slot.
  (func $enter_child (export "enter_child") (param $node i32) (param $id i32) (result i32) (local $at i32)
    (call $open (local.tee $at (call $child (local.get $node) (local.get $id))))
    (local.get $at))

  ;; A call of a function that a gateway stands for.
  (func $enter_gate (export "enter_gate") (param $node i32) (param $id i32) (result i32) (local $at i32) (local $row i32)
    (local.set $at (call $enter_child (local.get $node) (local.get $id)))
    (if (i32.eqz (i32.load $own offset=48 (local.get $at))) (then
      (local.set $row (call $row (local.get $id)))
      (i32.store $own offset=16 (local.get $row) (i32.xor (local.get $node) (i32.const 1)))
      (i32.store $own offset=20 (local.get $row) (local.get $at))))
    (local.get $at))

{if tails}
  ;; A tail call: it ends its caller, and belongs to what called that.
  (func $tail (export "tail") (param $node i32) (param $id i32)
    (call $close (local.get $node))
    (call $replace (local.get $node) (local.get $id)))

  (func $replace (param $node i32) (param $id i32) (local $at i32)
    (local.set $at (call $child (i32.load $own offset=4 (local.get $node)) (local.get $id)))
    (i32.store $own offset=72 (local.get $node) (local.get $at))
    (call $open (local.get $at)))
{end}

{if tails_indirectly}
  ;; A tail call that does not name its callee: if that is a function of this module, its gateway is next.
  (func $tail_via (export "tail_via") (param $node i32)
    (call $close (local.get $node))
    (i32.store $own offset=72 (local.get $node) (i32.const 1))
    (global.set $via (i32.or (local.get $node) (i32.const 1))))

  ;; It has arrived at the gateway of a function, which tail-calls the function.
  (func $tail_gate (export "tail_gate") (param $id i32) (local $node i32)
    (local.set $node (i32.and (global.get $via) (i32.const -2)))
    (global.set $via (i32.const 0))
    (call $replace (local.get $node) (local.get $id)))
{end}

{if exceptions}
  ;; An exception was caught in an activation of this node.
  (func $caught (export "caught") (param $node i32)
    (global.set $via (i32.const 0))
    (if (i32.ne (global.get $cur) (local.get $node)) (then
      (if (global.get $has_clock) (then (call $read_clock (global.get $reading))))
      (global.set $cur (local.get $node)))))
{end}

{if indirect}
  ;; What was called through a table or a reference was no function of this module.
  (func $foreign (export "foreign") (param $node i32)
    (global.set $via (i32.const 0))
    (call $count (call $child (local.get $node) (i32.add (global.get $functions) (i32.const 2)))))
{end}

  ;; Where a call comes from that arrives at a gateway: a call that does not name its callee, a function of the host, or the host itself.
  (func $origin (export "origin") (result i32) (local $at i32)
    (local.set $at (global.get $via))
    (if (local.get $at) (then
      (global.set $via (i32.const 0))
      (return (local.get $at))))
    (local.set $at (global.get $cur))
    (if (i32.lt_u (i32.sub (i32.load $own (local.get $at)) (i32.const 1)) (global.get $imports))
      (then (return (local.get $at))))
    (global.set $cur (i32.const 128))
    (call $calibrate)
    (i32.const 128))

{if start}
  ;; What the program starts with when it is instantiated is counted, not timed: the host has not made its clock known by then.
  (func $starting (export "starting") (param $is_it i32) (global.set $quiet (local.get $is_it)))
{end}
