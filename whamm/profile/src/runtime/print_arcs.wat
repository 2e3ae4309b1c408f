;; The profile goes to the host's module `prof`, arc by arc.
;;
;; An arc's time is that of all its calls, callees included, so that a function's own time is what leads into it less what leads out.

  (func $print
    (call $clear_results)
    (call $send))

  ;; The host may ask at any time.
  (func $send (export "export_data") (local $list i32) (local $n i32) (local $arc i32)
    (local.set $list (call $prepare))
    (if (i32.eqz (local.get $list)) (then (return)))
    (block $end (loop $next
      (br_if $end (i32.ge_u (local.get $n) (i32.load $own (i32.const 32))))
      (local.set $arc (i32.load $own offset=32 (call $get (local.get $list) (local.get $n))))
      (block $all (loop $more
        (br_if $all (i32.eqz (local.get $arc)))
        (call $set_arc_data
          (i32.load $own (local.get $arc))
          (i32.load $own offset=4 (local.get $arc))
          (call $at_most_a_word (i64.load $own offset=8 (local.get $arc)))
          (f64.div (f64.convert_i64_u (i64.load $own offset=48 (local.get $arc))) (f64.const 1000000)))
        (local.set $arc (i32.load $own offset=32 (local.get $arc)))
        (br $more)))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $next)))
    (global.set $report_to (global.get $heap))
    (if (global.get $force_print) (then (call $print_results))))

  (func $at_most_a_word (param $n i64) (result i32)
    (i32.wrap_i64 (select (local.get $n) (i64.const 0xffffffff) (i64.lt_u (local.get $n) (i64.const 0xffffffff)))))
