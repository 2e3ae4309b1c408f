;; When the profile is told: at the end of the program, and when the host asks.

  (global $is_told (mut i32) (i32.const 0))

  ;; A function that the host has called has returned.
  (func $ended (export "ended") (param $node i32)
    (if (i32.eq (local.get $node) (i32.const 128)) (then (call $finish))))

  ;; The program ends here: an instruction that traps is next.
  (func $ending (export "ending")
    (if (global.get $has_clock) (then (call $read_clock (global.get $reading))))
    (call $finish))

  ;; The same, and the host may call again.
  (func $exiting (export "exiting")
    (call $ending)
    (global.set $cur (i32.const 128)))

  ;; The host tells that the program has ended by a trap: what is not told yet is told now.
  (func $end (export "end")
    (call $ending)
    (global.set $via (i32.const 0))
    (global.set $cur (i32.const 128)))

  (func $finish
    (if (i32.and (global.get $is_told) (i32.eqz (global.get $tells_always))) (then (return)))
    (global.set $is_told (i32.const 1))
    (global.set $kept (i32.const 0))
    (call $print)
    (global.set $report_to (global.get $heap)))

  (func $kept_text (result i32 i32)
    (global.set $report_to (global.get $heap))
    (global.set $kept (i32.const 0))
    ;; A part of it is of no use.
    (if (global.get $is_cut) (then (return (i32.const 0) (i32.const 0))))
    (global.get $kept_from)
    (i32.sub (global.get $kept_to) (global.get $kept_from)))

  ;; A whole profile, as a file has it: where it is in our memory, and its length.
  (func $profile (export "profile") (result i32 i32)
    (call $file (i32.const 1))
    (call $kept_text))

  ;; The report for people, in the same way.
  (func $report (export "report") (result i32 i32)
    (call $text (i32.const 1))
    (call $kept_text))
