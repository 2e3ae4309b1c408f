;; The report for people: who was called how often and for how long, and by whom.

  ;; In hundredths.
  (func $share (param $part i64) (result i64)
    (if (i64.eqz (global.get $all_time)) (then (return (i64.const 0))))
    (i64.trunc_sat_f64_u (f64.add (f64.const 0.5)
      (f64.div (f64.mul (f64.convert_i64_u (local.get $part)) (f64.const 10000)) (f64.convert_i64_u (global.get $all_time))))))

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
    (call $say "fastinst profile: ")
    (call $whole (global.get $all_calls))
    (call $say " calls of ")
    (call $whole (i64.extend_i32_u (global.get $called)))
    (call $say " functions in ")
    (call $whole (i64.extend_i32_u (global.get $contexts)))
    (call $say " contexts")
    (if (global.get $has_clock) (then
      (call $say ", ")
      (call $milliseconds (global.get $all_time) (i32.const 0))
      (call $say " ms\n")
      (call $whole (global.get $timed_calls))
      (call $say " calls were timed; reading the clock takes ")
      (call $whole (select (global.get $reading) (i64.const 0) (global.get $calibrated)))
      (call $say " ns, ")
      (call $milliseconds (global.get $measuring) (i32.const 0))
      (call $say " ms in all, which is subtracted")
      (if (global.get $some_counted) (then
        (call $say "\n* counted and not timed, in some contexts at least: there its time is its caller's self time")))))
    (if (global.get $folded) (then
      (call $say "\nthere was no memory left for further contexts: what was called in these is below [contexts beyond memory]")))
    (call $say "\n\n"))

  (func $flat (param $list i32) (local $n i32) (local $sum i32)
    (call $say "Flat profile\n\n")
    (if (global.get $has_clock) (then (call $say " self %      self ms     total ms  self us/call  total us/call  ")))
    (call $say "       calls  name\n")
    (call $sort (local.get $list) (global.get $called) (i32.const 8) (i32.const 0))
    (block $end (loop $next
      (br_if $end (i32.ge_u (local.get $n) (global.get $called)))
      (br_if $end (i32.ge_u (local.get $n) (global.get $top)))
      (local.set $sum (call $get (local.get $list) (local.get $n)))
      (if (global.get $has_clock) (then
        (call $number (call $share (i64.load $own offset=8 (local.get $sum))) (i32.const 2) (i32.const 7))
        (call $milliseconds (i64.load $own offset=8 (local.get $sum)) (i32.const 13))
        (call $milliseconds (i64.load $own offset=16 (local.get $sum)) (i32.const 13))
        (call $number (i64.div_u (i64.load $own offset=8 (local.get $sum)) (i64.load $own (local.get $sum))) (i32.const 3) (i32.const 14))
        (call $number (i64.div_u (i64.load $own offset=16 (local.get $sum)) (i64.load $own (local.get $sum))) (i32.const 3) (i32.const 15))
        (call $spaces (i32.const 2))))
      (call $number (i64.load $own (local.get $sum)) (i32.const 0) (i32.const 12))
      (call $spaces (i32.const 2))
      (call $title (local.get $sum))
      (call $byte (i32.const 10))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $next)))
    (call $rest))

  (func $rest
    (if (i32.gt_u (global.get $called) (global.get $top)) (then
      (call $say "... and ")
      (call $whole (i64.extend_i32_u (i32.sub (global.get $called) (global.get $top))))
      (call $say " more\n"))))

  (func $title (param $sum i32)
    (call $say (call $name (i32.load $own offset=44 (local.get $sum))))
    (if (i32.and (global.get $has_clock) (i32.load $own offset=28 (local.get $sum))) (then (call $say " *"))))

  ;; Each function below its callers and above its callees, by their total times.
  (func $graph (param $list i32) (local $n i32) (local $sum i32)
    (call $say "\nCall graph\n\n")
    (if (global.get $has_clock) (then (call $say "index  total %      self ms  children ms  ")) (else (call $say "index  ")))
    (call $say "               called  name\n")
    (call $sort (local.get $list) (global.get $called) (i32.const 16) (i32.const 0))
    (block $numbered (loop $next
      (br_if $numbered (i32.ge_u (local.get $n) (global.get $called)))
      (i32.store $own offset=40 (call $get (local.get $list) (local.get $n)) (local.get $n))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $next)))
    (local.set $n (i32.const 0))
    (block $end (loop $next
      (br_if $end (i32.ge_u (local.get $n) (global.get $called)))
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
    (call $byte (i32.const 91))
    (call $whole (i64.extend_i32_u (local.get $n)))
    (call $byte (i32.const 93))
    (call $spaces (i32.sub (i32.const 5) (i32.sub (i32.const 400) (local.get $at))))
    (if (global.get $has_clock) (then
      (call $number (call $share (i64.load $own offset=16 (local.get $sum))) (i32.const 2) (i32.const 7))
      (call $times (i64.load $own offset=8 (local.get $sum)) (i64.load $own offset=16 (local.get $sum)))))
    (call $number (i64.load $own (local.get $sum)) (i32.const 0) (i32.const 21))
    (call $spaces (i32.const 2))
    (call $title (local.get $sum))
    (call $byte (i32.const 10)))

  (func $times (param $self i64) (param $total i64)
    (call $milliseconds (local.get $self) (i32.const 13))
    ;; Own time of recursive calls is in the total of the outermost.
    (call $milliseconds (select (i64.sub (local.get $total) (local.get $self)) (i64.const 0) (i64.gt_u (local.get $total) (local.get $self))) (i32.const 13))
    (call $spaces (i32.const 2)))

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

  (func $arc_line (param $arc i32) (param $next i32) (local $at i32) (local $other i32)
    (local.set $other (i32.load $own (i32.add (local.get $arc) (i32.and (local.get $next) (i32.const 4)))))
    (if (global.get $has_clock) (then
      (call $spaces (i32.const 14))
      (call $times (i64.load $own offset=24 (local.get $arc)) (i64.load $own offset=16 (local.get $arc))))
      (else (call $spaces (i32.const 7))))
    ;; Calls of all that the callee has.
    (local.set $at (call $digits (i64.load $own (call $sum_of (i32.load $own offset=4 (local.get $arc)))) (i32.const 0)))
    (call $number (i64.load $own offset=8 (local.get $arc)) (i32.const 0) (i32.sub (i32.const 20) (i32.sub (i32.const 400) (local.get $at))))
    (call $byte (i32.const 47))
    (call $whole (i64.load $own (call $sum_of (i32.load $own offset=4 (local.get $arc)))))
    (call $spaces (i32.const 6))
    (if (i32.eqz (local.get $other)) (then (call $say "<spontaneous>\n") (return)))
    (call $say (call $name (local.get $other)))
    (call $say " [")
    (call $whole (i64.extend_i32_u (i32.load $own offset=40 (call $sum_of (local.get $other)))))
    (call $say "]\n"))
