;; The report for people: who was called how often and for how long, and by whom.

  ;; In hundredths.
  (func $share (param $part i64) (result i64)
    (if (i64.eqz (i64.load $own (i32.const 16))) (then (return (i64.const 0))))
    (i64.trunc_sat_f64_u (f64.add (f64.const 0.5)
      (f64.div (f64.mul (f64.convert_i64_u (local.get $part)) (f64.const 10000)) (f64.convert_i64_u (i64.load $own (i32.const 16)))))))

  (func $text (param $keeps i32) (local $list i32)
    (local.set $list (call $prepare))
    (if (local.get $keeps) (then (call $keep)))
    (if (i32.eqz (local.get $list)) (then
      (call $say "fastinst: there is no memory left for the report of the profile\n")
      (return)))
    (call $heading)
    (call $flat (local.get $list))
    (call $graph (local.get $list)))

  (func $heading
    (call $tell "fastinst profile: {8} calls of {i32 32} functions in {i32 24} contexts" (i32.const 0))
    (if (global.get $has_clock) (then
      (call $tell ", {ms 16} ms\n{40} calls were timed; reading the clock takes {48} ns, {ms 56} ms in all, which is subtracted" (i32.const 0))
{if time_all}
      (call $say "\ntimes of functions that take less than a reading are uncertain")
{end}
      (if (global.get $some_counted) (then
        (call $say "\n* counted and not timed, in some contexts at least: there its time is its caller's self time")))))
    (if (global.get $folded) (then
      (call $say "\nthere was no memory left for further contexts: what was called in these is below [contexts beyond memory]")))
    (call $say "\n\n"))

  (func $flat (param $list i32) (local $n i32) (local $sum i32)
    (call $say "Flat profile\n\n")
    (if (global.get $has_clock) (then (call $say " self %      self ms     total ms  self us/call  total us/call  ")))
    (call $say "       calls  name\n")
    (call $sort (local.get $list) (i32.load $own (i32.const 32)) (i32.const 8) (i32.const 0))
    (block $end (loop $next
      (br_if $end (i32.ge_u (local.get $n) (i32.load $own (i32.const 32))))
      (br_if $end (i32.ge_u (local.get $n) (global.get $top)))
      (local.set $sum (call $get (local.get $list) (local.get $n)))
      (if (global.get $has_clock) (then
        (i64.store $own (i32.const 64) (call $share (i64.load $own offset=8 (local.get $sum))))
        (i64.store $own (i32.const 72) (i64.div_u (i64.load $own offset=8 (local.get $sum)) (i64.load $own (local.get $sum))))
        (i64.store $own (i32.const 80) (i64.div_u (i64.load $own offset=16 (local.get $sum)) (i64.load $own (local.get $sum))))
        (call $tell "{.2 =64:7}{ms 8:13}{ms 16:13}{.3 =72:14}{.3 =80:15}  " (local.get $sum))))
      (call $tell "{:12}  {name 44}" (local.get $sum))
      (call $mark (local.get $sum))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $next)))
    (call $rest))

  (func $rest
    (if (i32.gt_u (i32.load $own (i32.const 32)) (global.get $top)) (then
      (i32.store $own (i32.const 64) (i32.sub (i32.load $own (i32.const 32)) (global.get $top)))
      (call $tell "... and {i32 64} more\n" (i32.const 0)))))

  ;; The end of a line: whether calls were only counted.
  (func $mark (param $sum i32)
    (if (i32.and (global.get $has_clock) (i32.load $own offset=28 (local.get $sum))) (then (call $say " *")))
    (call $byte (i32.const 10)))

  ;; Each function below its callers and above its callees, by their total times.
  (func $graph (param $list i32) (local $n i32) (local $sum i32)
    (call $say "\nCall graph\n\n")
    (if (global.get $has_clock) (then (call $say "index  total %      self ms  children ms  ")) (else (call $say "index  ")))
    (call $say "               called  name\n")
    (call $sort (local.get $list) (i32.load $own (i32.const 32)) (i32.const 16) (i32.const 0))
    (block $numbered (loop $next
      (br_if $numbered (i32.ge_u (local.get $n) (i32.load $own (i32.const 32))))
      (i32.store $own offset=40 (call $get (local.get $list) (local.get $n)) (local.get $n))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $next)))
    (local.set $n (i32.const 0))
    (block $end (loop $next
      (br_if $end (i32.ge_u (local.get $n) (i32.load $own (i32.const 32))))
      (br_if $end (i32.ge_u (local.get $n) (global.get $top)))
      (local.set $sum (call $get (local.get $list) (local.get $n)))
      (call $arcs (i32.load $own offset=32 (local.get $sum)) (i32.const 32))
      (call $primary (local.get $sum) (local.get $n))
      (call $arcs (i32.load $own offset=36 (local.get $sum)) (i32.const 36))
      (call $say "--------------------------------------------------------------------------------\n")
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $next)))
    (call $rest))

  (func $primary (param $sum i32) (param $n i32) (local $at i32)
    (local.set $at (call $digits (i64.extend_i32_u (local.get $n)) (i32.const 0)))
    (call $tell "[{i32 40}]" (local.get $sum))
    (call $spaces (i32.sub (i32.const 5) (i32.sub (i32.const 400) (local.get $at))))
    (if (global.get $has_clock) (then
      (i64.store $own (i32.const 64) (call $share (i64.load $own offset=16 (local.get $sum))))
      (call $children (i64.load $own offset=8 (local.get $sum)) (i64.load $own offset=16 (local.get $sum)))
      (call $tell "{.2 =64:7}{ms 8:13}{ms =72:13}  " (local.get $sum))))
    (call $tell "{:21}  {name 44}" (local.get $sum))
    (call $mark (local.get $sum)))

  ;; Own time of recursive calls is in the total of the outermost.
  (func $children (param $self i64) (param $total i64)
    (i64.store $own (i32.const 72)
      (select (i64.sub (local.get $total) (local.get $self)) (i64.const 0) (i64.gt_u (local.get $total) (local.get $self)))))

  ;; Lines of callers (`next` is 32) or of callees (36), by their total times.
  (func $arcs (param $arc i32) (param $next i32) (local $list i32) (local $n i32) (local $i i32)
    (local.set $list (global.get $scratch))
    (block $end (loop $more
      (br_if $end (i32.eqz (local.get $arc)))
      (i32.store $own (i32.add (local.get $list) (i32.shl (local.get $n) (i32.const 2))) (local.get $arc))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (local.set $arc (i32.load $own (i32.add (local.get $arc) (local.get $next))))
      (br $more)))
    (call $sort (local.get $list) (local.get $n) (i32.const 16) (i32.const 8))
    (block $end (loop $more
      (br_if $end (i32.ge_u (local.get $i) (local.get $n)))
      (call $arc_line (call $get (local.get $list) (local.get $i)) (local.get $next))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $more))))

  (func $arc_line (param $arc i32) (param $next i32) (local $at i32) (local $other i32) (local $sum i32)
    (if (global.get $has_clock) (then
      (call $children (i64.load $own offset=24 (local.get $arc)) (i64.load $own offset=16 (local.get $arc)))
      (call $tell "              {ms 24:13}{ms =72:13}  " (local.get $arc)))
      (else (call $spaces (i32.const 7))))
    ;; Calls of all that the callee has.
    (local.set $sum (call $sum_of (i32.load $own offset=4 (local.get $arc))))
    (local.set $at (call $digits (i64.load $own (local.get $sum)) (i32.const 0)))
    (call $number (i64.load $own offset=8 (local.get $arc)) (i32.const 0) (i32.sub (i32.const 20) (i32.sub (i32.const 400) (local.get $at))))
    (call $tell "/{}      " (local.get $sum))
    (local.set $other (i32.load $own (i32.add (local.get $arc) (i32.and (local.get $next) (i32.const 4)))))
    (if (i32.eqz (local.get $other)) (then (call $say "<spontaneous>\n") (return)))
    (call $tell "{name 44} [{i32 40}]\n" (call $sum_of (local.get $other))))
