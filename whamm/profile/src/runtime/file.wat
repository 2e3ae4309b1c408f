;; The profile as a file that `fastinst report` reads: JSON of the second version, times in nanoseconds.

  (func $file (param $keeps i32) (local $list i32)
    (local.set $list (call $prepare))
    (if (local.get $keeps) (then (call $keep)))
    (if (i32.eqz (local.get $list)) (then (return)))
    (i64.store $own (i32.const 64) (i64.shl (i64.load $own (i32.const 48)) (i64.const 1)))
    ;; What has the number 0 among names is the program.
    (call $tell "{{\"fastinst\":2,\"profile\":{{\"header\":{{\"command\":[{quoted 0}],\"process\":0,\"parent\":0,\"processes\":1,\"started\":0," (i32.const 0))
    (call $tell "\"seconds\":{.9 16},\"processor\":{.9 16},\"wall\":true,\"policy\":\"exact\",\"hz\":1000000000,\"step\":1,\"bias\":0,\"pair\":{64}," (i32.const 0))
    (call $tell "\"machine\":\"WebAssembly\",\"spent\":{{\"probes\":0,\"toggles\":0,\"samples\":{40},\"switching\":0,\"agent\":{.9 56},\"lost\":0},\"notes\":[" (i32.const 0))
    (call $say (select (global.get $clock_note) (global.get $no_clock_note) (global.get $has_clock)))
    (if (global.get $folded) (then
      (call $say ",\"there was no memory left for further contexts: what was called in these is below [contexts beyond memory]\"")))
    (if (global.get $saving) (then
      (call $say ",\"written while the program was running: what came later is missing\"")))
    (call $tell "]},\"modules\":[{{\"path\":{quoted 0},\"build_id\":\"\"}],\"functions\":[" (i32.const 0))
    (call $functions (local.get $list))
    (call $say "],\"stacks\":[")
    (if (global.get $has_clock) (then (call $stacks)))
    (call $say "]}}\n")
    (global.set $is_whole (i32.const 1)))

  ;; Whether it is written while the program goes on.
  (global $saving (mut i32) (i32.const 0))
  ;; Whether there was memory for all of it.
  (global $is_whole (mut i32) (i32.const 0))

  (func $functions (param $list i32) (local $n i32)
    (block $end (loop $next
      (br_if $end (i32.ge_u (local.get $n) (i32.load $own (i32.const 32))))
      (if (local.get $n) (then (call $byte (i32.const 44))))
      (call $function (call $get (local.get $list) (local.get $n)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $next))))

  (func $function (param $sum i32) (local $arc i32)
    (call $tell "{{\"id\":{i32 44},\"label\":{{\"name\":{quoted 44},\"module\":0,\"offset\":{i32 44}},\"calls\":{{\"value\":{},\"how\":\"exact\"},\"samples\":{}" (local.get $sum))
    (call $times_of (local.get $sum))
    (call $say ",\"arcs\":[")
    (local.set $arc (i32.load $own offset=32 (local.get $sum)))
    (block $end (loop $next
      (br_if $end (i32.eqz (local.get $arc)))
      (call $arc_of (local.get $arc) (local.get $sum))
      (local.set $arc (i32.load $own offset=32 (local.get $arc)))
      (if (local.get $arc) (then (call $byte (i32.const 44))))
      (br $next)))
    (call $say "]}"))

  ;; Of a function that was only counted no times are known; of one that was in some contexts, times are bounds.
  (func $times_of (param $sum i32) (local $is_counted i32)
    (local.set $is_counted (i32.load $own offset=28 (local.get $sum)))
    (if (i32.eqz (global.get $has_clock)) (then (return)))
    (if (i32.and (local.get $is_counted) (i64.eqz (i64.load $own offset=8 (local.get $sum)))) (then (return)))
    (if (local.get $is_counted) (then
      (call $tell ",\"total\":{{\"value\":{16},\"how\":\"estimated\",\"lo\":{16},\"hi\":{=16}},\"self\":{{\"value\":{8},\"how\":\"estimated\",\"lo\":{8},\"hi\":{=16}},\"wall\":{{\"value\":{16},\"how\":\"estimated\",\"lo\":{16},\"hi\":{=16}}" (local.get $sum))
      (return)))
    (i64.store $own (i32.const 64) (i64.div_u (i64.mul (i64.load $own offset=16 (local.get $sum)) (i64.const 1000)) (i64.load $own (local.get $sum))))
    (call $tell ",\"total\":{{\"value\":{16},\"how\":\"exact\"},\"self\":{{\"value\":{8},\"how\":\"exact\"},\"wall\":{{\"value\":{16},\"how\":\"exact\"},\"mean\":{{\"value\":{.3 =64},\"how\":\"exact\"},\"timed\":{{\"seen\":{16},\"total\":{{\"value\":{16},\"how\":\"exact\"},\"self\":{{\"value\":{8},\"how\":\"exact\"}}" (local.get $sum)))

  ;; A caller's part of the time, or where there is none of the calls.
  (func $arc_of (param $arc i32) (param $sum i32) (local $at i32)
    (local.set $at (select (i32.const 16) (i32.const 8) (i64.ne (i64.load $own offset=16 (local.get $sum)) (i64.const 0))))
    (i64.store $own (i32.const 64)
      (i64.trunc_sat_f64_u (f64.div
        (f64.mul (f64.const 1000000000) (f64.convert_i64_u (i64.load $own (i32.add (local.get $arc) (local.get $at)))))
        (f64.convert_i64_u (i64.load $own (select (local.get $sum) (i32.add (local.get $sum) (i32.const 16)) (i32.eq (local.get $at) (i32.const 8))))))))
    (call $tell "{{\"site\":{i32 0},\"samples\":{8},\"share\":{.9 =64},\"caller\":" (local.get $arc))
    (if (i32.load $own (local.get $arc))
      (then (call $tell "{{\"name\":{quoted 0},\"module\":0,\"offset\":{i32 0}}}" (local.get $arc)))
      (else (call $say "null}"))))

  ;; Contexts that have time of their own, in the order of the tree.
  (func $stacks (local $at i32) (local $next i32) (local $some i32)
    (local.set $at (i32.const 128))
    (loop $down
      (if (call $shows (local.get $at)) (then
        (if (local.get $some) (then (call $byte (i32.const 44))))
        (local.set $some (i32.const 1))
        (call $stack (local.get $at))))
      (local.set $next (i32.load $own offset=12 (local.get $at)))
      (if (local.get $next) (then
        (local.set $at (local.get $next))
        (br $down)))
      (loop $up
        (if (i32.eq (local.get $at) (i32.const 128)) (then (return)))
        (local.set $next (i32.load $own offset=8 (local.get $at)))
        (if (local.get $next) (then
          (local.set $at (local.get $next))
          (br $down)))
        (local.set $at (i32.load $own offset=4 (local.get $at)))
        (br $up))))

  ;; Not the host, and not less than a hundred-thousandth of the time.
  (func $shows (param $at i32) (result i32) (local $own i64)
    (local.set $own (i64.load $own offset=56 (local.get $at)))
    (if (i32.or (i32.eq (local.get $at) (i32.const 128)) (i64.eqz (local.get $own))) (then (return (i32.const 0))))
    (i64.ge_u (local.get $own) (i64.div_u (i64.load $own (i32.const 16)) (i64.const 100000))))

  ;; The innermost frames, the outermost of them first.
  (func $stack (param $at i32) (local $node i32) (local $frames i32)
    (local.set $node (local.get $at))
    (block $counted (loop $next
      (br_if $counted (i32.eq (local.get $node) (i32.const 128)))
      (br_if $counted (i32.eq (local.get $frames) (i32.const 256)))
      (i32.store $own (i32.add (i32.const 2560) (i32.shl (local.get $frames) (i32.const 2))) (local.get $node))
      (local.set $frames (i32.add (local.get $frames) (i32.const 1)))
      (local.set $node (i32.load $own offset=4 (local.get $node)))
      (br $next)))
    (call $say "{\"frames\":[")
    (loop $next
      (local.set $frames (i32.sub (local.get $frames) (i32.const 1)))
      (call $tell "{i32 40}" (call $sum_of
        (i32.load $own (i32.load $own (i32.add (i32.const 2560) (i32.shl (local.get $frames) (i32.const 2)))))))
      (if (local.get $frames) (then (call $byte (i32.const 44)) (br $next))))
    (call $tell "],\"time\":{56},\"samples\":{16}}" (local.get $at)))
