;; What a report tells: sums over the tree by function, and by caller and callee.
;;
;; Of a function, 48 bytes: 0 calls  8 own time  16 total  24 how often it is on the way  28 whether calls were only counted
;;   32 first arc that leads in  36 first one that leads out  40 place in the report  44 its number
;; Of an arc, 56 bytes: 0 caller  4 callee  8 calls  16 total  24 own time  32 next in  36 next out  40 next in its bucket
;;   48 the time of all calls, callees included, however deep in recursion
;;
;; A total is what passes from the outermost activation on, so that recursion counts once.
;;
;; Of all together, below 128: 8 calls  16 time  24 contexts  32 functions that were called  40 calls that were timed
;;   48, 56 what a reading of the clock takes and what all have taken, as a report tells it  64, 72, 80 what a line derives

  (global $sums (mut i32) (i32.const 0))
  (global $buckets (mut i32) (i32.const 0))
  ;; How many arcs there are, and room for the addresses of all.
  (global $arcs (mut i32) (i32.const 0))
  (global $scratch (mut i32) (i32.const 0))
  (global $some_counted (mut i32) (i32.const 0))
  ;; The memory of the report before: it is used again if no node has been made since.
  (global $report_from (mut i32) (i32.const 0))
  (global $report_to (mut i32) (i32.const 0))

  (func $sum_of (param $id i32) (result i32) (i32.add (global.get $sums) (i32.mul (local.get $id) (i32.const 48))))

  ;; Its memory is the tree's again.
  (func $release
    (memory.fill $own (global.get $report_from) (i32.const 0) (i32.sub (global.get $heap) (global.get $report_from)))
    (global.set $heap (global.get $report_from))
    (global.set $report_to (i32.const 0)))

  ;; Whether there was room.
  (func $sum (result i32)
    (if (i32.and (i32.ne (global.get $report_to) (i32.const 0)) (i32.eq (global.get $heap) (global.get $report_to)))
      (then (call $release)))
    (global.set $report_from (global.get $heap))
    (i64.store $own (i32.const 8) (i64.const 0))
    (i64.store $own (i32.const 16) (i64.const 0))
    (i32.store $own (i32.const 24) (i32.const -1))
    (global.set $arcs (i32.const 0))
    (i64.store $own (i32.const 40) (i64.const 0))
    (global.set $some_counted (i32.const 0))
    (global.set $buckets (call $alloc (i32.const 16384)))
    (if (i32.eqz (global.get $buckets)) (then (return (i32.const 0))))
    (global.set $sums (call $alloc (i32.mul (i32.add (global.get $functions) (i32.const 3)) (i32.const 48))))
    (if (i32.eqz (global.get $sums)) (then (return (i32.const 0))))
    (call $walk (i32.const 128)))

  ;; All nodes, children before their parents are left.
  (func $walk (param $at i32) (result i32) (local $next i32)
    (call $arrive (local.get $at))
    (loop $down
      (local.set $next (i32.load $own offset=12 (local.get $at)))
      (if (local.get $next) (then
        (local.set $at (local.get $next))
        (call $arrive (local.get $at))
        (br $down)))
      (loop $up
        (if (i32.eqz (call $depart (local.get $at))) (then (return (i32.const 0))))
        (if (i32.eq (local.get $at) (i32.const 128)) (then (return (i32.const 1))))
        (local.set $next (i32.load $own offset=8 (local.get $at)))
        (if (local.get $next) (then
          (local.set $at (local.get $next))
          (call $arrive (local.get $at))
          (br $down)))
        (local.set $at (i32.load $own offset=4 (local.get $at)))
        (br $up)))
    (unreachable))

  (func $arrive (param $at i32) (local $sum i32)
    (local.set $sum (call $sum_of (i32.load $own (local.get $at))))
    (i32.store $own offset=24 (local.get $sum) (i32.add (i32.load $own offset=24 (local.get $sum)) (i32.const 1)))
    (i64.store $own offset=56 (local.get $at) (i64.load $own offset=24 (local.get $at)))
    (i64.store $own offset=64 (local.get $at) (i64.const 0)))

  (func $depart (param $at i32) (result i32)
    (local $sum i32) (local $parent i32) (local $arc i32) (local $own i64) (local $total i64) (local $calls i64) (local $is_outermost i32)
    (local.set $own (i64.load $own offset=56 (local.get $at)))
    (local.set $total (i64.load $own offset=64 (local.get $at)))
    (local.set $parent (i32.load $own offset=4 (local.get $at)))
    (local.set $calls (i64.load $own offset=16 (local.get $at)))
    (local.set $sum (call $sum_of (i32.load $own (local.get $at))))
    (if (i32.eqz (i32.load $own offset=48 (local.get $at))) (then
      ;; The time of what is only counted is its caller's.
      (call $add (i32.add (local.get $parent) (i32.const 56)) (local.get $own))
      (i64.store $own offset=56 (local.get $at) (i64.const 0))
      (local.set $own (i64.const 0))
      (if (i64.ne (local.get $calls) (i64.const 0)) (then
        (global.set $some_counted (i32.const 1))
        (i32.store $own offset=28 (local.get $sum) (i32.const 1))))))
    (local.set $total (i64.add (local.get $total) (local.get $own)))
    (i64.store $own offset=64 (local.get $at) (local.get $total))
    (i32.store $own offset=24 (local.get $sum) (i32.sub (i32.load $own offset=24 (local.get $sum)) (i32.const 1)))
    (local.set $is_outermost (i32.eqz (i32.load $own offset=24 (local.get $sum))))
    (i32.store $own (i32.const 24) (i32.add (i32.load $own (i32.const 24)) (i32.const 1)))
    (if (i32.eq (local.get $at) (i32.const 128)) (then (return (i32.const 1))))
{if time_all}
    (if (i32.load $own offset=48 (local.get $at)) (then (call $add (i32.const 40) (local.get $calls))))
{else}
    (call $add (i32.const 40) (i64.extend_i32_u (i32.load $own offset=52 (local.get $at))))
{end}
    (call $add (i32.add (local.get $parent) (i32.const 64)) (local.get $total))
    (call $add (i32.const 16) (local.get $own))
    (local.set $arc (call $arc (i32.load $own (local.get $parent)) (i32.load $own (local.get $at))))
    (if (i32.eqz (local.get $arc)) (then (return (i32.const 0))))
    (call $called (local.get $sum) (local.get $arc) (local.get $calls))
    ;; What stands for all contexts that there was no room for is no function.
    (if (i32.eq (local.get $at) (i32.const 208)) (then (call $add (i32.const 8) (i64.sub (i64.const 0) (local.get $calls)))))
    (call $add (i32.add (local.get $sum) (i32.const 8)) (local.get $own))
    (call $add (i32.add (local.get $arc) (i32.const 24)) (local.get $own))
    (call $add (i32.add (local.get $arc) (i32.const 48)) (local.get $total))
    (if (local.get $is_outermost) (then
      (call $add (i32.add (local.get $sum) (i32.const 16)) (local.get $total))
      (call $add (i32.add (local.get $arc) (i32.const 16)) (local.get $total))))
    (call $leaf_calls (local.get $at)))

  ;; Calls of leaf functions that a node has counted itself.
  (func $leaf_calls (param $at i32) (result i32) (local $row i32) (local $n i32) (local $id i32) (local $arc i32) (local $calls i64)
    (local.set $row (call $row (i32.load $own (local.get $at))))
    (block $end (loop $next
      (br_if $end (i32.ge_u (local.get $n) (i32.load16_u $own offset=4 (local.get $row))))
      (local.set $calls (i64.load $own offset=80 (i32.add (local.get $at) (i32.shl (local.get $n) (i32.const 3)))))
      (if (i64.ne (local.get $calls) (i64.const 0)) (then
        (local.set $id (i32.load $own (i32.add (global.get $leaf_ids) (i32.shl (i32.add (i32.load $own (local.get $row)) (local.get $n)) (i32.const 2)))))
        (local.set $arc (call $arc (i32.load $own (local.get $at)) (local.get $id)))
        (if (i32.eqz (local.get $arc)) (then (return (i32.const 0))))
        ;; Where it was called through a table, too, it has a node for that.
        (if (i32.eqz (call $known (local.get $at) (local.get $id))) (then
          (i32.store $own (i32.const 24) (i32.add (i32.load $own (i32.const 24)) (i32.const 1)))))
        (global.set $some_counted (i32.const 1))
        (i32.store $own offset=28 (call $sum_of (local.get $id)) (i32.const 1))
        (call $called (call $sum_of (local.get $id)) (local.get $arc) (local.get $calls))))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $next)))
    (i32.const 1))

  (func $called (param $sum i32) (param $arc i32) (param $calls i64)
    (call $add (i32.const 8) (local.get $calls))
    (call $add (local.get $sum) (local.get $calls))
    (call $add (i32.add (local.get $arc) (i32.const 8)) (local.get $calls)))

  ;; Once in the program: engines compile a call in less time than what it does.
  (func $add (param $at i32) (param $value i64)
    (i64.store $own (local.get $at) (i64.add (i64.load $own (local.get $at)) (local.get $value))))

  ;; The arc between two functions; 0 if there is no room for it.
  (func $arc (param $caller i32) (param $callee i32) (result i32) (local $bucket i32) (local $arc i32) (local $sum i32)
    (local.set $bucket (i32.add (global.get $buckets)
      (i32.shl (i32.and (i32.add (i32.mul (local.get $caller) (i32.const 31)) (local.get $callee)) (i32.const 4095)) (i32.const 2))))
    (local.set $arc (i32.load $own (local.get $bucket)))
    (block $none (loop $next
      (br_if $none (i32.eqz (local.get $arc)))
      (if (i32.and (i32.eq (i32.load $own (local.get $arc)) (local.get $caller)) (i32.eq (i32.load $own offset=4 (local.get $arc)) (local.get $callee)))
        (then (return (local.get $arc))))
      (local.set $arc (i32.load $own offset=40 (local.get $arc)))
      (br $next)))
    (local.set $arc (call $alloc (i32.const 56)))
    (if (i32.eqz (local.get $arc)) (then (return (i32.const 0))))
    (global.set $arcs (i32.add (global.get $arcs) (i32.const 1)))
    (i32.store $own (local.get $arc) (local.get $caller))
    (i32.store $own offset=4 (local.get $arc) (local.get $callee))
    (i32.store $own offset=40 (local.get $arc) (i32.load $own (local.get $bucket)))
    (i32.store $own (local.get $bucket) (local.get $arc))
    (local.set $sum (call $sum_of (local.get $callee)))
    (i32.store $own offset=32 (local.get $arc) (i32.load $own offset=32 (local.get $sum)))
    (i32.store $own offset=32 (local.get $sum) (local.get $arc))
    (local.set $sum (call $sum_of (local.get $caller)))
    (i32.store $own offset=36 (local.get $arc) (i32.load $own offset=36 (local.get $sum)))
    (i32.store $own offset=36 (local.get $sum) (local.get $arc))
    (local.get $arc))

  ;; Everything that is told: the list of the functions that were called; 0 if there is no room.
  (func $prepare (result i32) (local $list i32)
    (if (i32.eqz (call $sum)) (then (return (i32.const 0))))
    (local.set $list (call $list))
    (if (i32.eqz (local.get $list)) (then (return (i32.const 0))))
    (global.set $scratch (call $alloc (i32.shl (global.get $arcs) (i32.const 2))))
    (if (i32.eqz (global.get $scratch)) (then (return (i32.const 0))))
    (i64.store $own (i32.const 48) (select (global.get $reading) (i64.const 0) (global.get $calibrated)))
    (i64.store $own (i32.const 56) (call $measuring))
    (local.get $list))

  ;; Functions that were called, in the order of their numbers: where the list begins. `called` is how many.
  (func $list (result i32) (local $list i32) (local $id i32) (local $sum i32)
    (local.set $list (call $alloc (i32.shl (i32.add (global.get $functions) (i32.const 3)) (i32.const 2))))
    (if (i32.eqz (local.get $list)) (then (return (i32.const 0))))
    (i32.store $own (i32.const 32) (i32.const 0))
    (local.set $id (i32.const 1))
    (loop $next
      (local.set $sum (call $sum_of (local.get $id)))
      (i32.store $own offset=44 (local.get $sum) (local.get $id))
      (if (i64.ne (i64.load $own (local.get $sum)) (i64.const 0)) (then
        (i32.store $own offset=40 (local.get $sum) (i32.load $own (i32.const 32)))
        (i32.store $own (i32.add (local.get $list) (i32.shl (i32.load $own (i32.const 32)) (i32.const 2))) (local.get $sum))
        (i32.store $own (i32.const 32) (i32.add (i32.load $own (i32.const 32)) (i32.const 1)))))
      (local.set $id (i32.add (local.get $id) (i32.const 1)))
      (br_if $next (i32.lt_u (local.get $id) (i32.add (global.get $functions) (i32.const 3)))))
    (local.get $list))

  ;; Whether one comes before another: more of what is at `key`, or as much and more calls.
  (func $before (param $a i32) (param $b i32) (param $key i32) (param $calls i32) (result i32) (local $x i64) (local $y i64)
    (local.set $x (i64.load $own (i32.add (local.get $a) (local.get $key))))
    (local.set $y (i64.load $own (i32.add (local.get $b) (local.get $key))))
    (if (i64.eq (local.get $x) (local.get $y)) (then
      (local.set $x (i64.load $own (i32.add (local.get $a) (local.get $calls))))
      (local.set $y (i64.load $own (i32.add (local.get $b) (local.get $calls))))))
    (i64.gt_u (local.get $x) (local.get $y)))

  ;; Shell's sort of a list of addresses.
  (func $sort (param $list i32) (param $n i32) (param $key i32) (param $calls i32) (local $gap i32) (local $i i32) (local $j i32) (local $one i32)
    (local.set $gap (i32.shr_u (local.get $n) (i32.const 1)))
    (block $end (loop $gaps
      (br_if $end (i32.eqz (local.get $gap)))
      (local.set $i (local.get $gap))
      (block $sorted (loop $next
        (br_if $sorted (i32.ge_u (local.get $i) (local.get $n)))
        (local.set $one (call $get (local.get $list) (local.get $i)))
        (local.set $j (local.get $i))
        (block $place (loop $back
          (br_if $place (i32.lt_u (local.get $j) (local.get $gap)))
          (br_if $place (i32.eqz (call $before (local.get $one)
            (call $get (local.get $list) (i32.sub (local.get $j) (local.get $gap))) (local.get $key) (local.get $calls))))
          (i32.store $own (i32.add (local.get $list) (i32.shl (local.get $j) (i32.const 2)))
            (call $get (local.get $list) (i32.sub (local.get $j) (local.get $gap))))
          (local.set $j (i32.sub (local.get $j) (local.get $gap)))
          (br $back)))
        (i32.store $own (i32.add (local.get $list) (i32.shl (local.get $j) (i32.const 2))) (local.get $one))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
      (local.set $gap (i32.shr_u (local.get $gap) (i32.const 1)))
      (br $gaps))))

  (func $get (param $list i32) (param $n i32) (result i32)
    (i32.load $own (i32.add (local.get $list) (i32.shl (local.get $n) (i32.const 2)))))
