;; The profile goes to a file in the first folder of the program's that takes it; it is told on the console if there is
;; none. The file has its name when it is whole.

  (func $print
    (if (call $write) (then (return)))
    (call $say "fastinst: no folder that the program may write to takes the profile: give it one (--dir), with room for it\n")
    (call $text (i32.const 0))
    (call $flush))

  (func $write (result i32)
    (global.set $fd (call $open_file))
    (if (i32.lt_s (global.get $fd) (i32.const 0)) (then
      (global.set $fd (i32.const 2))
      (return (i32.const 0))))
    (global.set $is_whole (i32.const 0))
    (global.set $is_lost (i32.const 0))
    (call $file (i32.const 0))
    (call $flush)
    (drop (call $fd_close (global.get $fd)))
    (global.set $fd (i32.const 2))
    (if (i32.or (i32.eqz (global.get $is_whole)) (global.get $is_lost)) (then (return (i32.const 0))))
    (i32.eqz (call $rename_file)))

  ;; Once a second, but not for more than a fiftieth of the time: what is left if the program traps.
  (func $save (local $begin i64) (local $passed i64)
    (global.set $next_save (i64.const 0x7fffffffffffffff))
    (local.set $begin (global.get $last))
    (global.set $saving (i32.const 1))
    (global.set $kept (i32.const 0))
    (if (i32.eqz (call $write)) (then
      ;; The end says why.
      (global.set $saving (i32.const 0))
      (return (call $release))))
    (global.set $saving (i32.const 0))
    (call $release)
    (global.set $last (call $clock))
    (local.set $passed (i64.sub (global.get $last) (local.get $begin)))
    (call $save_after (i64.mul (local.get $passed) (i64.const 50))))

  ;; When the profile so far is written next.
  (global $next_save (mut i64) (i64.const 0x7fffffffffffffff))

  (func $save_after (param $time i64)
    (global.set $next_save (i64.add (global.get $last)
      (select (local.get $time) (i64.const 1000000000) (i64.gt_s (local.get $time) (i64.const 1000000000))))))
