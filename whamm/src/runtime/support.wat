;; What instrumented modules and monitors need at run time; only what is used is linked.
;;
;; A value is a row of words of eight bytes, one for each slot of its type, so that all values are stored, compared, sorted and printed
;; alike. A descriptor says what a row is: u and i are 32-bit numbers, U and I 64-bit ones, f and d fractions, b a truth, s a text (two
;; words), m a map (followed by the four bytes of the address of an empty one like it), M a map of the core library, ( and ) a tuple; a zero byte
;; ends it.
;;
;; The first bytes of the memory:      16 the key that is looked for, sixteen words
;;   144 what is handed to the system  256 lists of known texts, by hash
;;  1280 bytes of the program's memory that are lent to a write
;;  2304 what is to be written         4352 five long numbers, to print fractions
(module
  (import "target" "write" (func $write (param i32 i32)))
  (import "target" "print_map" (func $print_map (param i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open" (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $environ_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_dir_name" (func $fd_prestat_dir_name (param i32 i32 i32) (result i32)))
  (import "whamm_core" "puts" (func $core_puts (param i32 i32)))
  (import "whamm_core" "mem_alloc" (func $core_mem_alloc (param i32) (result i32)))
  (import "whamm_core" "mem_free" (func $core_mem_free (param i32)))
  (import "whamm_core" "print_map" (func $core_print_map (param i32)))
  (memory $own 1)
  (memory $app 1)
  (memory $core 1)
  (global $heap (mut i32) (i32.const 0))
  (global $fill (mut i32) (i32.const 0))
  (global $json (mut i32) (i32.const 0))
  (global $desc (mut i32) (i32.const 0))
  (global $fd (mut i32) (i32.const 1))
  (global $kept (mut i32) (i32.const 0))
  (global $kept_len (mut i32) (i32.const 0))
  (global $kept_room (mut i32) (i32.const 0))
  (global $path (mut i32) (i32.const 0))
  (global $path_len (mut i32) (i32.const 0))
  (global $env (mut i32) (i32.const 0))
  (global $env_len (mut i32) (i32.const 0))
  (global $within (mut i32) (i32.const 0))
  (global $kept_from (mut i32) (i32.const 0))
  (global $kept_to (mut i32) (i32.const 0))

  ;; Room that is never given back, full of zeros.
  (func $alloc (param $n i32) (result i32) (local $at i32) (local $more i32)
    (local.set $at (global.get $heap))
    (global.set $heap (i32.add (local.get $at) (i32.and (i32.add (local.get $n) (i32.const 7)) (i32.const -8))))
    (if (i32.lt_u (global.get $heap) (local.get $at)) (then (unreachable)))
    (local.set $more (i32.sub (i32.shr_u (i32.add (global.get $heap) (i32.const 65535)) (i32.const 16)) (memory.size $own)))
    (if (i32.gt_s (local.get $more) (i32.const 0))
      (then (if (i32.eq (memory.grow $own (local.get $more)) (i32.const -1)) (then (unreachable)))))
    (local.get $at))

  ;; ---- texts

  (func $str_cmp (param $p i32) (param $n i32) (param $q i32) (param $m i32) (result i32) (local $i i32) (local $d i32)
    (block $done
      (loop $next
        (br_if $done (i32.or (i32.ge_u (local.get $i) (local.get $n)) (i32.ge_u (local.get $i) (local.get $m))))
        (local.set $d (i32.sub (i32.load8_u $own (i32.add (local.get $p) (local.get $i))) (i32.load8_u $own (i32.add (local.get $q) (local.get $i)))))
        (if (local.get $d) (then (return (local.get $d))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $next)))
    (i32.sub (local.get $n) (local.get $m)))

  (func $str_eq (param $p i32) (param $n i32) (param $q i32) (param $m i32) (result i32)
    (if (i32.ne (local.get $n) (local.get $m)) (then (return (i32.const 0))))
    (if (i32.eq (local.get $p) (local.get $q)) (then (return (i32.const 1))))
    (i32.eqz (call $str_cmp (local.get $p) (local.get $n) (local.get $q) (local.get $m))))

  ;; The number at an index of a text of numbers with commas between them, or 0.
  (func $str_number (param $p i32) (param $n i32) (param $index i32) (result i32) (local $end i32) (local $c i32) (local $value i32)
    (local.set $end (i32.add (local.get $p) (local.get $n)))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $p) (local.get $end)))
        (local.set $c (i32.load8_u $own (local.get $p)))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (if (i32.eq (local.get $c) (i32.const 44))
          (then
            (br_if $done (i32.eqz (local.get $index)))
            (local.set $index (i32.sub (local.get $index) (i32.const 1))))
          (else
            (if (i32.eqz (local.get $index)) (then
              (local.set $value
                (i32.add (i32.mul (local.get $value) (i32.const 10)) (i32.sub (local.get $c) (i32.const 48))))))))
        (br $next)))
    (local.get $value))

  (func $str_starts (param $p i32) (param $n i32) (param $q i32) (param $m i32) (result i32)
    (if (i32.lt_u (local.get $n) (local.get $m)) (then (return (i32.const 0))))
    (call $str_eq (local.get $p) (local.get $m) (local.get $q) (local.get $m)))

  (func $str_ends (param $p i32) (param $n i32) (param $q i32) (param $m i32) (result i32)
    (if (i32.lt_u (local.get $n) (local.get $m)) (then (return (i32.const 0))))
    (call $str_eq (i32.add (local.get $p) (i32.sub (local.get $n) (local.get $m))) (local.get $m) (local.get $q) (local.get $m)))

  (func $str_contains (param $p i32) (param $n i32) (param $q i32) (param $m i32) (result i32)
    (loop $next
      (if (i32.lt_u (local.get $n) (local.get $m)) (then (return (i32.const 0))))
      (if (call $str_eq (local.get $p) (local.get $m) (local.get $q) (local.get $m)) (then (return (i32.const 1))))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $next))
    (unreachable))

  ;; The one address at which a text is kept: equal texts, equal addresses. A node is next, text, length.
  (func $intern (param $p i32) (param $n i32) (result i32) (local $h i32) (local $i i32) (local $node i32)
    (local.set $h (i32.const 5381))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
      (local.set $h (i32.xor (i32.mul (local.get $h) (i32.const 33)) (i32.load8_u $own (i32.add (local.get $p) (local.get $i)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (local.set $h (i32.shl (i32.and (i32.xor (local.get $h) (i32.shr_u (local.get $h) (i32.const 15))) (i32.const 255)) (i32.const 2)))
    (local.set $node (i32.load $own offset=256 (local.get $h)))
    (block $absent (loop $next
      (br_if $absent (i32.eqz (local.get $node)))
      (if (call $str_eq (local.get $p) (local.get $n) (i32.load $own offset=4 (local.get $node)) (i32.load $own offset=8 (local.get $node)))
        (then (return (i32.load $own offset=4 (local.get $node)))))
      (local.set $node (i32.load $own (local.get $node)))
      (br $next)))
    (local.set $node (call $alloc (i32.const 12)))
    (local.set $i (call $alloc (local.get $n)))
    (memory.copy $own $own (local.get $i) (local.get $p) (local.get $n))
    (i32.store $own (local.get $node) (i32.load $own offset=256 (local.get $h)))
    (i32.store $own offset=4 (local.get $node) (local.get $i))
    (i32.store $own offset=8 (local.get $node) (local.get $n))
    (i32.store $own offset=256 (local.get $h) (local.get $node))
    (local.get $i))

  ;; The program's stack may run out wherever something is called. So what is kept for longer is changed where nothing is called any more.

  ;; ---- maps: 0 how many, 4 mask, 8 table of entries, 12 places used, 16 words of a key, 20 of a value, 24 and 28 their descriptors,
  ;; 32 an array of the entries, 36 its room. An entry is its key, then its value. In the table 0 is free, 1 was deleted.

  (func $map_like (param $model i32) (result i32) (local $map i32)
    (local.set $map (call $alloc (i32.const 40)))
    (i64.store $own offset=16 (local.get $map) (i64.load $own offset=16 (local.get $model)))
    (i64.store $own offset=24 (local.get $map) (i64.load $own offset=24 (local.get $model)))
    (local.get $map))

  (func $hash (param $p i32) (param $n i32) (result i32) (local $h i64)
    (loop $next
      (local.set $h (i64.mul (i64.xor (local.get $h) (i64.load $own (local.get $p))) (i64.const 0x9E3779B97F4A7C15)))
      (local.set $h (i64.xor (local.get $h) (i64.shr_u (local.get $h) (i64.const 32))))
      (local.set $p (i32.add (local.get $p) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i32.wrap_i64 (local.get $h)))

  (func $same (param $p i32) (param $q i32) (param $n i32) (result i32)
    (loop $next
      (if (i64.ne (i64.load $own (local.get $p)) (i64.load $own (local.get $q))) (then (return (i32.const 0))))
      (local.set $p (i32.add (local.get $p) (i32.const 8)))
      (local.set $q (i32.add (local.get $q) (i32.const 8)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i32.const 1))

  ;; The place in the table where the key is, or the free one where its search ends.
  (func $place (param $map i32) (result i32) (local $i i32) (local $mask i32) (local $e i32)
    (local.set $mask (i32.load $own offset=4 (local.get $map)))
    (local.set $i (call $hash (i32.const 16) (i32.load $own offset=16 (local.get $map))))
    (loop $next
      (local.set $i (i32.and (local.get $i) (local.get $mask)))
      (local.set $e (i32.load $own (i32.add (i32.load $own offset=8 (local.get $map)) (i32.shl (local.get $i) (i32.const 2)))))
      (if (i32.eqz (i32.or
            (i32.eqz (local.get $e))
            (if (result i32) (i32.eq (local.get $e) (i32.const 1)) (then (i32.const 0))
              (else (call $same (i32.const 16) (local.get $e) (i32.load $own offset=16 (local.get $map)))))))
        (then (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $next))))
    (i32.add (i32.load $own offset=8 (local.get $map)) (i32.shl (local.get $i) (i32.const 2))))

  ;; The address of the value of the key, or 0.
  (func $map_find (param $map i32) (result i32) (local $e i32)
    (if (i32.eqz (i32.load $own offset=8 (local.get $map))) (then (return (i32.const 0))))
    (local.set $e (i32.load $own (call $place (local.get $map))))
    (if (result i32) (local.get $e)
      (then (i32.add (local.get $e) (i32.shl (i32.load $own offset=16 (local.get $map)) (i32.const 3))))
      (else (i32.const 0))))

  (func $map_grow (param $map i32) (local $old i32) (local $n i32) (local $i i32) (local $e i32) (local $mask i32) (local $h i32)
      (local $new i32)
    (local.set $old (i32.load $own offset=8 (local.get $map)))
    (local.set $n (select (i32.add (i32.load $own offset=4 (local.get $map)) (i32.const 1)) (i32.const 0) (local.get $old)))
    (local.set $mask (i32.sub (i32.shl (i32.load $own (local.get $map)) (i32.const 2)) (i32.const 1)))
    (if (i32.lt_s (local.get $mask) (i32.const 15)) (then (local.set $mask (i32.const 15))))
    (local.set $mask (i32.sub (i32.shl (i32.const 1) (i32.sub (i32.const 32) (i32.clz (local.get $mask)))) (i32.const 1)))
    (local.set $new (call $alloc (i32.shl (i32.add (local.get $mask) (i32.const 1)) (i32.const 2))))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
      (local.set $e (i32.load $own (i32.add (local.get $old) (i32.shl (local.get $i) (i32.const 2)))))
      (if (i32.gt_u (local.get $e) (i32.const 1)) (then
        (local.set $h (call $hash (local.get $e) (i32.load $own offset=16 (local.get $map))))
        (block $free (loop $probe
          (local.set $h (i32.and (local.get $h) (local.get $mask)))
          (br_if $free (i32.eqz (i32.load $own (i32.add (local.get $new) (i32.shl (local.get $h) (i32.const 2))))))
          (local.set $h (i32.add (local.get $h) (i32.const 1)))
          (br $probe)))
        (i32.store $own (i32.add (local.get $new) (i32.shl (local.get $h) (i32.const 2))) (local.get $e))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (i32.store $own offset=8 (local.get $map) (local.get $new))
    (i32.store $own offset=4 (local.get $map) (local.get $mask))
    (i32.store $own offset=12 (local.get $map) (i32.load $own (local.get $map))))

  ;; The address of the value of the key, which is made if there is none.
  (func $map_get (param $map i32) (result i32) (local $e i32) (local $at i32) (local $value i32)
    (if (i32.ge_u (i32.shl (i32.add (i32.load $own offset=12 (local.get $map)) (i32.const 1)) (i32.const 2))
                  (i32.mul (i32.add (i32.load $own offset=4 (local.get $map)) (i32.const 1)) (i32.const 3)))
      (then
        (local.set $value (call $map_find (local.get $map)))
        (if (local.get $value) (then (return (local.get $value))))
        (call $map_grow (local.get $map))))
    (local.set $at (call $place (local.get $map)))
    (local.set $e (i32.load $own (local.get $at)))
    (if (i32.eqz (local.get $e)) (then
      (local.set $e (call $alloc (i32.shl (i32.add (i32.load $own offset=16 (local.get $map)) (i32.load $own offset=20 (local.get $map))) (i32.const 3))))
      (memory.copy $own $own (local.get $e) (i32.const 16) (i32.shl (i32.load $own offset=16 (local.get $map)) (i32.const 3)))
      (local.set $value (i32.add (local.get $e) (i32.shl (i32.load $own offset=16 (local.get $map)) (i32.const 3))))
      (if (i32.eq (i32.load8_u $own (i32.load $own offset=28 (local.get $map))) (i32.const 109))
        (then (i32.store $own (local.get $value) (call $map_like (i32.load $own offset=1 align=1 (i32.load $own offset=28 (local.get $map)))))))
      (i32.store $own (local.get $at) (local.get $e))
      (i32.store $own (local.get $map) (i32.add (i32.load $own (local.get $map)) (i32.const 1)))
      (i32.store $own offset=12 (local.get $map) (i32.add (i32.load $own offset=12 (local.get $map)) (i32.const 1)))))
    (i32.add (local.get $e) (i32.shl (i32.load $own offset=16 (local.get $map)) (i32.const 3))))

  ;; Adds what has come together in cells to elements of maps: from a table of map, first cell, how many. A key is the number of its cell.
  (func $settle (param $table i32) (param $n i32) (local $map i32) (local $cell i32) (local $key i32) (local $at i32)
    (loop $row
      (local.set $map (i32.load $own (local.get $table)))
      (local.set $cell (i32.load $own offset=4 (local.get $table)))
      (local.set $key (i32.const 0))
      (loop $next
        (if (i64.ne (i64.load $own (local.get $cell)) (i64.const 0)) (then
          (i64.store $own (i32.const 16) (i64.extend_i32_u (local.get $key)))
          (local.set $at (call $map_get (local.get $map)))
          (i64.store $own (local.get $at) (i64.add (i64.load $own (local.get $at)) (i64.load $own (local.get $cell))))
          ;; Of a 32-bit number the rest of the word stays zero: its descriptor is a small letter.
          (if (i32.and (i32.load8_u $own (i32.load $own offset=28 (local.get $map))) (i32.const 32))
            (then (i32.store $own offset=4 (local.get $at) (i32.const 0))))
          (i64.store $own (local.get $cell) (i64.const 0))))
        (local.set $cell (i32.add (local.get $cell) (i32.const 8)))
        (br_if $next (i32.lt_u (local.tee $key (i32.add (local.get $key) (i32.const 1))) (i32.load $own offset=8 (local.get $table)))))
      (local.set $table (i32.add (local.get $table) (i32.const 12)))
      (br_if $row (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))

  ;; The same for rows that are chained: each has the address of the next in front.
  (func $settle_chain (param $row i32)
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $row)))
      (call $settle (i32.add (local.get $row) (i32.const 4)) (i32.const 1))
      (local.set $row (i32.load $own (local.get $row)))
      (br $next))))

  (func $map_delete (param $map i32) (local $at i32)
    (if (i32.eqz (call $map_find (local.get $map))) (then (return)))
    (i32.store $own (call $place (local.get $map)) (i32.const 1))
    (i32.store $own (local.get $map) (i32.sub (i32.load $own (local.get $map)) (i32.const 1))))

  ;; Less than zero, zero or more, as the first key comes before, is, or comes after the second.
  (func $compare (param $d i32) (param $p i32) (param $q i32) (result i32) (local $c i32) (local $x i64) (local $y i64)
    (loop $next
      (local.set $c (i32.load8_u $own (local.get $d)))
      (if (i32.eqz (local.get $c)) (then (return (i32.const 0))))
      (local.set $d (i32.add (local.get $d) (i32.const 1)))
      (br_if $next (i32.le_u (local.get $c) (i32.const 41)))
      (if (i32.eq (local.get $c) (i32.const 115)) (then
        (local.set $c (call $str_cmp (i32.load $own (local.get $p)) (i32.load $own offset=8 (local.get $p)) (i32.load $own (local.get $q)) (i32.load $own offset=8 (local.get $q))))
        (if (local.get $c) (then (return (local.get $c))))
        (local.set $p (i32.add (local.get $p) (i32.const 16)))
        (local.set $q (i32.add (local.get $q) (i32.const 16)))
        (br $next)))
      (local.set $x (i64.load $own (local.get $p)))
      (local.set $y (i64.load $own (local.get $q)))
      (if (i32.eq (local.get $c) (i32.const 105)) (then
        (local.set $x (i64.extend32_s (local.get $x))) (local.set $y (i64.extend32_s (local.get $y)))))
      ;; Fractions order like their bits, once those of negative ones are flipped.
      (if (i32.eq (local.get $c) (i32.const 102)) (then
        (local.set $x (i64.extend32_s (local.get $x))) (local.set $y (i64.extend32_s (local.get $y)))
        (local.set $x (i64.xor (local.get $x) (i64.and (i64.shr_s (local.get $x) (i64.const 63)) (i64.const 0x7fffffff))))
        (local.set $y (i64.xor (local.get $y) (i64.and (i64.shr_s (local.get $y) (i64.const 63)) (i64.const 0x7fffffff))))))
      (if (i32.eq (local.get $c) (i32.const 100)) (then
        (local.set $x (i64.xor (local.get $x) (i64.shr_u (i64.shr_s (local.get $x) (i64.const 63)) (i64.const 1))))
        (local.set $y (i64.xor (local.get $y) (i64.shr_u (i64.shr_s (local.get $y) (i64.const 63)) (i64.const 1))))))
      (if (i32.or (i32.eq (local.get $c) (i32.const 117)) (i32.or (i32.eq (local.get $c) (i32.const 85)) (i32.eq (local.get $c) (i32.const 98))))
        (then
          (if (i64.lt_u (local.get $x) (local.get $y)) (then (return (i32.const -1))))
          (if (i64.gt_u (local.get $x) (local.get $y)) (then (return (i32.const 1)))))
        (else
          (if (i64.lt_s (local.get $x) (local.get $y)) (then (return (i32.const -1))))
          (if (i64.gt_s (local.get $x) (local.get $y)) (then (return (i32.const 1))))))
      (local.set $p (i32.add (local.get $p) (i32.const 8)))
      (local.set $q (i32.add (local.get $q) (i32.const 8)))
      (br $next))
    (unreachable))

  ;; Lets an entry sink in a heap of entries, the greatest on top.
  (func $sink (param $a i32) (param $i i32) (param $n i32) (param $d i32) (local $c i32) (local $x i32) (local $y i32)
    (loop $next
      (local.set $c (i32.add (i32.shl (local.get $i) (i32.const 1)) (i32.const 1)))
      (if (i32.ge_u (local.get $c) (local.get $n)) (then (return)))
      (if (i32.lt_u (i32.add (local.get $c) (i32.const 1)) (local.get $n)) (then
        (if (i32.lt_s (call $compare (local.get $d)
              (i32.load $own (i32.add (local.get $a) (i32.shl (local.get $c) (i32.const 2))))
              (i32.load $own offset=4 (i32.add (local.get $a) (i32.shl (local.get $c) (i32.const 2))))) (i32.const 0))
          (then (local.set $c (i32.add (local.get $c) (i32.const 1)))))))
      (local.set $x (i32.load $own (i32.add (local.get $a) (i32.shl (local.get $i) (i32.const 2)))))
      (local.set $y (i32.load $own (i32.add (local.get $a) (i32.shl (local.get $c) (i32.const 2)))))
      (if (i32.ge_s (call $compare (local.get $d) (local.get $x) (local.get $y)) (i32.const 0)) (then (return)))
      (i32.store $own (i32.add (local.get $a) (i32.shl (local.get $i) (i32.const 2))) (local.get $y))
      (i32.store $own (i32.add (local.get $a) (i32.shl (local.get $c) (i32.const 2))) (local.get $x))
      (local.set $i (local.get $c))
      (br $next)))

  ;; The entries of a map in the order of their keys: an array, as long as the map has entries.
  (func $map_sorted (param $map i32) (result i32) (local $a i32) (local $i i32) (local $n i32) (local $e i32) (local $end i32) (local $d i32)
    (local.set $end (i32.load $own (local.get $map)))
    (if (i32.gt_u (local.get $end) (i32.load $own offset=36 (local.get $map))) (then
      (i32.store $own offset=32 (local.get $map) (call $alloc (i32.shl (local.get $end) (i32.const 3))))
      (i32.store $own offset=36 (local.get $map) (i32.shl (local.get $end) (i32.const 1)))))
    (local.set $a (i32.load $own offset=32 (local.get $map)))
    (local.set $d (i32.load $own offset=24 (local.get $map)))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $n) (local.get $end)))
      (local.set $e (i32.load $own (i32.add (i32.load $own offset=8 (local.get $map)) (i32.shl (local.get $i) (i32.const 2)))))
      (if (i32.gt_u (local.get $e) (i32.const 1)) (then
        (i32.store $own (i32.add (local.get $a) (i32.shl (local.get $n) (i32.const 2))) (local.get $e))
        (local.set $n (i32.add (local.get $n) (i32.const 1)))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (local.set $i (i32.shr_u (local.get $n) (i32.const 1)))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $i)))
      (local.set $i (i32.sub (local.get $i) (i32.const 1)))
      (call $sink (local.get $a) (local.get $i) (local.get $n) (local.get $d))
      (br $next)))
    (block $done (loop $next
      (br_if $done (i32.le_u (local.get $n) (i32.const 1)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (local.set $e (i32.load $own (local.get $a)))
      (i32.store $own (local.get $a) (i32.load $own (i32.add (local.get $a) (i32.shl (local.get $n) (i32.const 2)))))
      (i32.store $own (i32.add (local.get $a) (i32.shl (local.get $n) (i32.const 2))) (local.get $e))
      (call $sink (local.get $a) (i32.const 0) (local.get $n) (local.get $d))
      (br $next)))
    (local.get $a))

  ;; ---- writing

  (func $flush (local $n i32)
    (local.set $n (global.get $fill))
    (global.set $fill (i32.const 0))
    (if (local.get $n) (then (call $write (i32.const 2304) (local.get $n)))))

  ;; What is handed over at once ends where a character ends: up to three bytes more have room.
  (func $putc (param $c i32)
    (if (i32.ge_u (global.get $fill)
          (i32.add (i32.const 2044) (i32.shl (i32.eq (i32.and (local.get $c) (i32.const 192)) (i32.const 128)) (i32.const 2))))
      (then (call $flush)))
    (i32.store8 $own offset=2304 (global.get $fill) (local.get $c))
    (global.set $fill (i32.add (global.get $fill) (i32.const 1))))

  (func $puts (param $p i32) (param $n i32)
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $n)))
      (call $putc (i32.load8_u $own (local.get $p)))
      (local.set $p (i32.add (local.get $p) (i32.const 1)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (br $next))))

  (func $put_u64 (param $n i64)
    (if (i64.ge_u (local.get $n) (i64.const 10)) (then (call $put_u64 (i64.div_u (local.get $n) (i64.const 10)))))
    (call $putc (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $n) (i64.const 10))))))

  (func $put_i64 (param $n i64)
    (if (i64.lt_s (local.get $n) (i64.const 0)) (then
      (call $putc (i32.const 45))
      (local.set $n (i64.sub (i64.const 0) (local.get $n)))))
    (call $put_u64 (local.get $n)))

  (func $put_hex (param $n i64) (local $d i32)
    (if (i64.ge_u (local.get $n) (i64.const 16)) (then (call $put_hex (i64.shr_u (local.get $n) (i64.const 4)))))
    (local.set $d (i32.and (i32.wrap_i64 (local.get $n)) (i32.const 15)))
    (call $putc (i32.add (local.get $d) (select (i32.const 87) (i32.const 48) (i32.ge_u (local.get $d) (i32.const 10))))))

  ;; Four letters at once, the first in the lowest byte.
  (func $put4 (param $letters i32)
    (loop $next
      (call $putc (i32.and (local.get $letters) (i32.const 255)))
      (br_if $next (local.tee $letters (i32.shr_u (local.get $letters) (i32.const 8))))))

  (func $put_bool (param $b i32)
    (if (local.get $b) (then (call $put4 (i32.const 0x65757274)))
      (else (call $put4 (i32.const 0x736c6166)) (call $putc (i32.const 101)))))

  ;; ---- fractions: the shortest digits that only this fraction is nearest to. Long numbers have 36 words of 32 bits.

  (func $long_mul (param $p i32) (param $by i64) (local $carry i64) (local $end i32)
    (local.set $end (i32.add (local.get $p) (i32.const 144)))
    (loop $next
      (local.set $carry (i64.add (local.get $carry) (i64.mul (i64.load32_u $own (local.get $p)) (local.get $by))))
      (i64.store32 $own (local.get $p) (local.get $carry))
      (local.set $carry (i64.shr_u (local.get $carry) (i64.const 32)))
      (local.set $p (i32.add (local.get $p) (i32.const 4)))
      (br_if $next (i32.lt_u (local.get $p) (local.get $end)))))

  (func $long_set (param $p i32) (param $n i64) (param $shift i32)
    (memory.fill $own (local.get $p) (i32.const 0) (i32.const 144))
    (i64.store $own (i32.add (local.get $p) (i32.shl (i32.shr_u (local.get $shift) (i32.const 5)) (i32.const 2))) (local.get $n))
    (call $long_mul (local.get $p) (i64.shl (i64.const 1) (i64.extend_i32_u (i32.and (local.get $shift) (i32.const 31))))))

  ;; Adds, or subtracts if the sign is -1.
  (func $long_add (param $p i32) (param $q i32) (param $sign i64) (local $carry i64) (local $end i32)
    (local.set $end (i32.add (local.get $p) (i32.const 144)))
    (loop $next
      (local.set $carry (i64.add (i64.add (local.get $carry) (i64.load32_u $own (local.get $p))) (i64.mul (local.get $sign) (i64.load32_u $own (local.get $q)))))
      (i64.store32 $own (local.get $p) (local.get $carry))
      (local.set $carry (i64.shr_s (local.get $carry) (i64.const 32)))
      (local.set $p (i32.add (local.get $p) (i32.const 4)))
      (local.set $q (i32.add (local.get $q) (i32.const 4)))
      (br_if $next (i32.lt_u (local.get $p) (local.get $end)))))

  (func $long_cmp (param $p i32) (param $q i32) (result i32) (local $i i32) (local $x i32) (local $y i32)
    (local.set $i (i32.const 144))
    (loop $next
      (local.set $i (i32.sub (local.get $i) (i32.const 4)))
      (local.set $x (i32.load $own (i32.add (local.get $p) (local.get $i))))
      (local.set $y (i32.load $own (i32.add (local.get $q) (local.get $i))))
      (if (i32.ne (local.get $x) (local.get $y)) (then (return (select (i32.const -1) (i32.const 1) (i32.lt_u (local.get $x) (local.get $y))))))
      (br_if $next (local.get $i)))
    (i32.const 0))

  ;; Compares the sum of two with a third; the sum is made in the fifth long number.
  (func $long_sum_cmp (param $p i32) (param $q i32) (param $r i32) (result i32)
    (memory.copy $own $own (i32.const 4992) (local.get $p) (i32.const 144))
    (call $long_add (i32.const 4992) (local.get $q) (i64.const 1))
    (call $long_cmp (i32.const 4992) (local.get $r)))

  ;; A fraction m times two to the e; `least` if its lower neighbour is half as far as the upper one. R, S, M+ and M- are at 4352 and so on.
  (func $put_digits (param $m i64) (param $e i32) (param $least i32)
      (local $k i32) (local $d i32) (local $even i32) (local $low i32) (local $high i32) (local $first i32) (local $up i32)
    (local.set $even (i32.eqz (i32.and (i32.wrap_i64 (local.get $m)) (i32.const 1))))
    (local.set $up (select (local.get $e) (i32.const 0) (i32.gt_s (local.get $e) (i32.const 0))))
    (call $long_set (i32.const 4352) (local.get $m) (i32.add (i32.add (local.get $up) (i32.const 1)) (local.get $least)))
    (call $long_set (i32.const 4512) (i64.const 1)
      (i32.add (i32.add (select (i32.sub (i32.const 0) (local.get $e)) (i32.const 0) (i32.lt_s (local.get $e) (i32.const 0))) (i32.const 1)) (local.get $least)))
    (call $long_set (i32.const 4672) (i64.const 1) (i32.add (local.get $up) (local.get $least)))
    (call $long_set (i32.const 4832) (i64.const 1) (local.get $up))
    (block $done (loop $next
      (local.set $d (call $long_sum_cmp (i32.const 4352) (i32.const 4672) (i32.const 4512)))
      (br_if $done (i32.lt_s (i32.add (local.get $d) (local.get $even)) (i32.const 1)))
      (call $long_mul (i32.const 4512) (i64.const 10))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br $next)))
    (block $done (loop $next
      (memory.copy $own $own (i32.const 4992) (i32.const 4352) (i32.const 144))
      (call $long_add (i32.const 4992) (i32.const 4672) (i64.const 1))
      (call $long_mul (i32.const 4992) (i64.const 10))
      (local.set $d (call $long_cmp (i32.const 4992) (i32.const 4512)))
      (br_if $done (i32.ge_s (i32.add (local.get $d) (local.get $even)) (i32.const 1)))
      (call $long_mul (i32.const 4352) (i64.const 10))
      (call $long_mul (i32.const 4672) (i64.const 10))
      (call $long_mul (i32.const 4832) (i64.const 10))
      (local.set $k (i32.sub (local.get $k) (i32.const 1)))
      (br $next)))
    (local.set $first (i32.const 1))
    (block $done (loop $next
      (call $long_mul (i32.const 4352) (i64.const 10))
      (call $long_mul (i32.const 4672) (i64.const 10))
      (call $long_mul (i32.const 4832) (i64.const 10))
      (local.set $d (i32.const 0))
      (block $small (loop $less
        (br_if $small (i32.lt_s (call $long_cmp (i32.const 4352) (i32.const 4512)) (i32.const 0)))
        (call $long_add (i32.const 4352) (i32.const 4512) (i64.const -1))
        (local.set $d (i32.add (local.get $d) (i32.const 1)))
        (br $less)))
      (local.set $low (i32.lt_s (call $long_cmp (i32.const 4352) (i32.const 4832)) (local.get $even)))
      (local.set $high (i32.ge_s (i32.add (call $long_sum_cmp (i32.const 4352) (i32.const 4672) (i32.const 4512)) (local.get $even)) (i32.const 1)))
      (if (i32.or (local.get $low) (local.get $high)) (then
        (if (i32.and (local.get $low) (local.get $high))
          (then (local.set $high (i32.ge_s (call $long_sum_cmp (i32.const 4352) (i32.const 4352) (i32.const 4512)) (i32.const 0)))))
        (call $putc (i32.add (i32.const 48) (i32.add (local.get $d) (local.get $high))))
        (br $done)))
      (call $putc (i32.add (i32.const 48) (local.get $d)))
      (if (local.get $first) (then (call $putc (i32.const 46)) (local.set $first (i32.const 0))))
      (br $next)))
    (call $putc (i32.const 101))
    (call $put_i64 (i64.extend_i32_s (i32.sub (local.get $k) (i32.const 1)))))

  (func $put_odd (param $negative i32) (param $nan i32)
    (if (global.get $json) (then (call $putc (i32.const 34))))
    (if (local.get $nan) (then (call $put4 (i32.const 0x4e614e)))
      (else
        (call $putc (select (i32.const 45) (i32.const 43) (local.get $negative)))
        (call $put4 (i32.const 0x666e69))))
    (if (global.get $json) (then (call $putc (i32.const 34)))))

  ;; A fraction by its bits: how many are after the point, and what has to be taken from the exponent.
  (func $put_bits (param $bits i64) (param $width i32) (param $bias i32) (param $negative i32) (local $m i64) (local $e i32)
    (local.set $m (i64.and (local.get $bits) (i64.sub (i64.shl (i64.const 1) (i64.extend_i32_u (local.get $width))) (i64.const 1))))
    (local.set $e (i32.wrap_i64 (i64.shr_u (local.get $bits) (i64.extend_i32_u (local.get $width)))))
    (if (i32.eq (local.get $e) (i32.add (i32.shl (local.get $bias) (i32.const 1)) (i32.const 1))) (then
      (call $put_odd (local.get $negative) (i64.ne (local.get $m) (i64.const 0)))
      (return)))
    (if (local.get $negative) (then (call $putc (i32.const 45)))
      (else (if (i32.eqz (global.get $json)) (then (call $putc (i32.const 43))))))
    (if (i64.eqz (local.get $bits)) (then (call $put4 (i32.const 0x306530)) (return)))
    (if (local.get $e)
      (then (local.set $m (i64.or (local.get $m) (i64.shl (i64.const 1) (i64.extend_i32_u (local.get $width))))))
      (else (local.set $e (i32.const 1))))
    (call $put_digits (local.get $m)
      (i32.sub (i32.sub (local.get $e) (local.get $bias)) (local.get $width))
      (i32.and (i32.gt_s (local.get $e) (i32.const 1))
               (i64.eq (local.get $m) (i64.shl (i64.const 1) (i64.extend_i32_u (local.get $width)))))))

  (func $put_f32 (param $x f32) (local $b i32)
    (local.set $b (i32.reinterpret_f32 (local.get $x)))
    (call $put_bits (i64.extend_i32_u (i32.and (local.get $b) (i32.const 0x7fffffff))) (i32.const 23) (i32.const 127) (i32.shr_u (local.get $b) (i32.const 31))))

  (func $put_f64 (param $x f64) (local $b i64)
    (local.set $b (i64.reinterpret_f64 (local.get $x)))
    (call $put_bits (i64.and (local.get $b) (i64.const 0x7fffffffffffffff)) (i32.const 52) (i32.const 1023) (i32.wrap_i64 (i64.shr_u (local.get $b) (i64.const 63)))))

  ;; ---- values and rows

  ;; A text as a field: in quotes where a comma, a quote or a line end needs it, in a map also where it is empty or has what stands between
  ;; elements, and always in JSON.
  (func $put_field (param $p i32) (param $n i32) (local $i i32) (local $c i32) (local $before i32) (local $quoted i32)
    (local.set $quoted (i32.or (global.get $json) (i32.and (i32.ne (global.get $within) (i32.const 0)) (i32.eqz (local.get $n)))))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
      (local.set $c (i32.load8_u $own (i32.add (local.get $p) (local.get $i))))
      (local.set $quoted (i32.or (local.get $quoted) (i32.or (i32.eq (local.get $c) (i32.const 44)) (i32.or (i32.eq (local.get $c) (i32.const 34)) (i32.eq (local.get $c) (i32.const 10))))))
      (if (global.get $within) (then
        (local.set $quoted (i32.or (local.get $quoted) (i32.or (i32.eq (local.get $c) (i32.const 59))
          (i32.and (i32.eq (local.get $before) (i32.const 45)) (i32.eq (local.get $c) (i32.const 62))))))
        (local.set $before (local.get $c))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (if (i32.eqz (local.get $quoted)) (then (call $puts (local.get $p) (local.get $n)) (return)))
    (call $putc (i32.const 34))
    (local.set $i (i32.const 0))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
      (local.set $c (i32.load8_u $own (i32.add (local.get $p) (local.get $i))))
      (block $plain
        (if (i32.eqz (global.get $json)) (then
          (if (i32.eq (local.get $c) (i32.const 34)) (then (call $putc (local.get $c))))
          (br $plain)))
        (if (i32.or (i32.eq (local.get $c) (i32.const 34)) (i32.eq (local.get $c) (i32.const 92))) (then (call $putc (i32.const 92)) (br $plain)))
        (br_if $plain (i32.ge_u (local.get $c) (i32.const 32)))
        (call $put4 (i32.const 0x3030755c))
        (call $putc (i32.add (i32.const 48) (i32.shr_u (local.get $c) (i32.const 4))))
        (local.set $c (i32.and (local.get $c) (i32.const 15)))
        (local.set $c (i32.add (local.get $c) (select (i32.const 87) (i32.const 48) (i32.ge_u (local.get $c) (i32.const 10))))))
      (call $putc (local.get $c))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (call $putc (i32.const 34)))

  ;; Inside of maps the parts of tuples stand closer.
  (func $put_map (param $map i32) (local $a i32) (local $i i32) (local $n i32) (local $e i32)
    (global.set $within (i32.add (global.get $within) (i32.const 1)))
    (if (global.get $json) (then (call $putc (i32.const 91))))
    (local.set $n (i32.load $own (local.get $map)))
    (if (local.get $n)
      (then (local.set $a (call $map_sorted (local.get $map))))
      (else (if (i32.eqz (global.get $json)) (then
        (call $put4 (i32.const 0x74706d65)) (call $put4 (i32.const 0x616d2079)) (call $putc (i32.const 112))))))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $i) (local.get $n)))
      (if (local.get $i) (then (call $putc (select (i32.const 44) (i32.const 59) (global.get $json)))))
      (local.set $e (i32.load $own (i32.add (local.get $a) (i32.shl (local.get $i) (i32.const 2)))))
      (if (global.get $json) (then (call $putc (i32.const 91))))
      (call $put_value (i32.load $own offset=24 (local.get $map)) (local.get $e))
      (if (global.get $json) (then (call $putc (i32.const 44))) (else (call $put4 (i32.const 0x3e2d))))
      (call $put_value (i32.load $own offset=28 (local.get $map)) (i32.add (local.get $e) (i32.shl (i32.load $own offset=16 (local.get $map)) (i32.const 3))))
      (if (global.get $json) (then (call $putc (i32.const 93))))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))
    (global.set $within (i32.sub (global.get $within) (i32.const 1)))
    (if (global.get $json) (then (call $putc (i32.const 93)))))

  ;; Rows of keys and values.
  (func $put_map_csv (param $map i32) (local $a i32) (local $i i32) (local $e i32)
    (if (i32.eqz (i32.load $own (local.get $map))) (then (return)))
    (global.set $within (i32.const 1))
    (local.set $a (call $map_sorted (local.get $map)))
    (loop $next
      (local.set $e (i32.load $own (i32.add (local.get $a) (i32.shl (local.get $i) (i32.const 2)))))
      (call $put_value (i32.load $own offset=24 (local.get $map)) (local.get $e))
      (call $put4 (i32.const 0x202c))
      (call $put_value (i32.load $own offset=28 (local.get $map)) (i32.add (local.get $e) (i32.shl (i32.load $own offset=16 (local.get $map)) (i32.const 3))))
      (call $putc (i32.const 10))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.load $own (local.get $map)))))
    (global.set $within (i32.const 0)))

  ;; The value at an address, by its descriptor.
  (func $put_value (param $d i32) (param $p i32) (local $c i32) (local $comma i32)
    (loop $next
      (local.set $c (i32.load8_u $own (local.get $d)))
      (if (i32.eqz (local.get $c)) (then (return)))
      (local.set $d (i32.add (local.get $d) (i32.const 1)))
      (if (i32.eq (local.get $c) (i32.const 41)) (then
        (call $putc (select (i32.const 93) (i32.const 41) (global.get $json)))
        (local.set $comma (i32.const 1))
        (br $next)))
      (if (local.get $comma) (then
        (if (i32.or (global.get $json) (global.get $within)) (then (call $putc (i32.const 44))) (else (call $put4 (i32.const 0x203b))))))
      (local.set $comma (i32.const 1))
      (if (i32.eq (local.get $c) (i32.const 40)) (then
        (call $putc (select (i32.const 91) (i32.const 40) (global.get $json)))
        (local.set $comma (i32.const 0))
        (br $next)))
      (if (i32.eq (local.get $c) (i32.const 117)) (then (call $put_u64 (i64.load32_u $own (local.get $p)))))
      (if (i32.eq (local.get $c) (i32.const 105)) (then (call $put_i64 (i64.load32_s $own (local.get $p)))))
      (if (i32.eq (local.get $c) (i32.const 85)) (then (call $put_u64 (i64.load $own (local.get $p)))))
      (if (i32.eq (local.get $c) (i32.const 73)) (then (call $put_i64 (i64.load $own (local.get $p)))))
      (if (i32.eq (local.get $c) (i32.const 98)) (then (call $put_bool (i32.load $own (local.get $p)))))
      (if (i32.eq (local.get $c) (i32.const 102)) (then (call $put_f32 (f32.load $own (local.get $p)))))
      (if (i32.eq (local.get $c) (i32.const 100)) (then (call $put_f64 (f64.load $own (local.get $p)))))
      (if (i32.eq (local.get $c) (i32.const 115)) (then
        ;; The value is a row's last field, so outside of maps its texts need no quotes.
        (if (i32.or (global.get $json) (global.get $within))
          (then (call $put_field (i32.load $own (local.get $p)) (i32.load $own offset=8 (local.get $p))))
          (else (call $puts (i32.load $own (local.get $p)) (i32.load $own offset=8 (local.get $p)))))
        (local.set $p (i32.add (local.get $p) (i32.const 8)))))
      (if (i32.eq (local.get $c) (i32.const 109)) (then
        (call $put_map (i32.load $own (local.get $p)))
        (local.set $d (i32.add (local.get $d) (i32.const 4)))))
      (if (i32.eq (local.get $c) (i32.const 77)) (then (call $print_map (i32.load $own (local.get $p)))))
      (local.set $p (i32.add (local.get $p) (i32.const 8)))
      (br $next)))

  (func $separate
    (call $putc (i32.const 44))
    (if (i32.eqz (global.get $json)) (then (call $putc (i32.const 32)))))

  ;; The key of a member of a JSON object: up to eight letters.
  (func $key (param $a i32) (param $b i32)
    (if (global.get $json) (then
      (call $putc (i32.const 34))
      (call $put4 (local.get $a))
      (if (local.get $b) (then (call $put4 (local.get $b))))
      (call $putc (i32.const 34))
      (call $putc (i32.const 58)))))

  (func $put_pair (param $p i32)
    (call $put_field (i32.load $own (local.get $p)) (i32.load $own offset=4 (local.get $p))))

  ;; The number of a probe by the name of its instruction: after two numbers, that of names which are not listed and the first of the others,
  ;; come names with their lengths. Length 0 leaves a number out, 255 is the end.
  (func $number (param $list i32) (param $p i32) (param $n i32) (result i32) (local $number i32) (local $at i32) (local $len i32)
    (local.set $number (i32.load $own offset=4 (local.get $list)))
    (local.set $at (i32.add (local.get $list) (i32.const 8)))
    (loop $next (result i32)
      (local.set $len (i32.load8_u $own (local.get $at)))
      (if (i32.eq (local.get $len) (i32.const 255)) (then (return (i32.load $own (local.get $list)))))
      (local.set $at (i32.add (local.get $at) (i32.const 1)))
      (if (i32.eq (local.get $len) (local.get $n)) (then
        (if (call $str_eq (local.get $at) (local.get $len) (local.get $p) (local.get $n)) (then (return (local.get $number))))))
      (local.set $at (i32.add (local.get $at) (local.get $len)))
      (local.set $number (i32.add (local.get $number) (i32.const 1)))
      (br $next)))

  ;; A row for a site. A variable is nine words of four bytes: its name, its type, its Wasm type and its probe (address and length each), then
  ;; its descriptor, the number of its script, and whose it is: of sites 0, of frames 1, of sites of several instructions their numbers.
  (func $site_row (param $var i32) (param $value i32) (param $fname i32) (param $len i32) (param $fid i32) (param $pc i32) (param $opname i32) (param $oplen i32)
    (if (global.get $json) (then (call $putc (i32.const 123))))
    (call $key (i32.const 0x6469) (i32.const 0))
    (call $put_u64 (i64.extend_i32_u (local.get $value)))
    (call $separate)
    (call $key (i32.const 0x745f6469) (i32.const 0x657079))
    (if (global.get $json) (then (call $putc (i32.const 34))))
    (if (i32.eq (i32.load $own offset=40 (local.get $var)) (i32.const 1))
      (then (call $put4 (i32.const 0x6d617266)) (call $putc (i32.const 101)))
      (else (call $put4 (i32.const 0x616d656d)) (call $put4 (i32.const 0x726464))))
    (if (global.get $json) (then (call $putc (i32.const 34))))
    (call $separate)
    (call $key (i32.const 0x656d616e) (i32.const 0))
    (call $put_pair (local.get $var))
    (call $separate)
    (call $key (i32.const 0x65707974) (i32.const 0))
    (call $put_typename (i32.add (local.get $var) (i32.const 8)))
    (call $separate)
    (call $key (i32.const 0x6d736177) (i32.const 0))
    (call $put_typename (i32.add (local.get $var) (i32.const 16)))
    (call $separate)
    (call $key (i32.const 0x69726373) (i32.const 0x7470))
    (if (global.get $json) (then (call $putc (i32.const 34))))
    (call $put4 (i32.const 0x69726373)) (call $put4 (i32.const 0x7470))
    (call $put_u64 (i64.load32_u $own offset=36 (local.get $var)))
    (if (global.get $json) (then (call $putc (i32.const 34))))
    (call $separate)
    (call $key (i32.const 0x6d616e66) (i32.const 0x65))
    (if (local.get $len)
      (then (call $put_field (local.get $fname) (local.get $len)))
      (else
        (if (global.get $json) (then (call $putc (i32.const 34))))
        (call $putc (i32.const 35))
        (call $put_u64 (i64.extend_i32_u (local.get $fid)))
        (if (global.get $json) (then (call $putc (i32.const 34))))))
    (call $separate)
    (call $key (i32.const 0x646966) (i32.const 0))
    (call $put_u64 (i64.extend_i32_u (local.get $fid)))
    (call $separate)
    (call $key (i32.const 0x6370) (i32.const 0))
    (if (i32.eq (i32.load $own offset=40 (local.get $var)) (i32.const 1))
      (then (if (global.get $json) (then (call $put4 (i32.const 0x6c6c756e)))))
      (else (call $put_u64 (i64.extend_i32_u (local.get $pc)))))
    (call $separate)
    (call $key (i32.const 0x626f7270) (i32.const 0x65))
    (if (local.get $oplen)
      (then
        (if (global.get $json) (then (call $putc (i32.const 34))))
        (call $put_u64 (i64.extend_i32_u (call $number (i32.load $own offset=40 (local.get $var)) (local.get $opname) (local.get $oplen))))
        (call $puts (i32.load $own offset=24 (local.get $var)) (i32.load $own offset=28 (local.get $var)))
        (call $puts (local.get $opname) (local.get $oplen))
        (if (global.get $json) (then (call $putc (i32.const 34)))))
      (else (call $put_pair (i32.add (local.get $var) (i32.const 24)))))
    (call $separate)
    (call $key (i32.const 0x756c6176) (i32.const 0x65))
    (call $put_value (i32.load $own offset=32 (local.get $var)) (local.get $value))
    (if (global.get $json) (then (call $putc (i32.const 125))))
    (call $putc (i32.const 10)))

  ;; The name of a type never needs quotes in CSV, though the name of a map's type has a comma.
  (func $put_typename (param $p i32)
    (if (global.get $json) (then (call $put_pair (local.get $p)))
      (else (call $puts (i32.load $own (local.get $p)) (i32.load $own offset=4 (local.get $p))))))

  (func $leb (param $p i32) (result i32) (local $n i32) (local $shift i32) (local $b i32)
    (global.set $desc (local.get $p))
    (loop $next
      (local.set $b (i32.load8_u $own (global.get $desc)))
      (global.set $desc (i32.add (global.get $desc) (i32.const 1)))
      (local.set $n (i32.or (local.get $n) (i32.shl (i32.and (local.get $b) (i32.const 127)) (local.get $shift))))
      (local.set $shift (i32.add (local.get $shift) (i32.const 7)))
      (br_if $next (i32.ge_u (local.get $b) (i32.const 128))))
    (local.get $n))

  (func $delta (result i32) (local $n i32)
    (local.set $n (call $leb (global.get $desc)))
    (i32.xor (i32.shr_u (local.get $n) (i32.const 1)) (i32.sub (i32.const 0) (i32.and (local.get $n) (i32.const 1)))))

  ;; Rows of sites, packed: for each its variable, then how its word, function and place differ from those of the row before.
  (func $rows (param $at i32) (param $count i32) (param $vars i32) (param $fnames i32) (param $words i32)
      (local $var i32) (local $word i32) (local $fid i32) (local $pc i32) (local $name i32)
    (global.set $desc (local.get $at))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $count)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (local.set $var (i32.add (local.get $vars) (i32.mul (call $leb (global.get $desc)) (i32.const 44))))
      (local.set $word (i32.add (local.get $word) (call $delta)))
      (local.set $fid (i32.add (local.get $fid) (call $delta)))
      (local.set $pc (i32.add (local.get $pc) (call $delta)))
      (local.set $name (i32.add (local.get $fnames) (i32.shl (local.get $fid) (i32.const 3))))
      (local.set $at (global.get $desc))
      (call $site_row (local.get $var) (i32.add (local.get $words) (i32.shl (local.get $word) (i32.const 3)))
        (i32.load $own (local.get $name)) (i32.load $own offset=4 (local.get $name)) (local.get $fid) (local.get $pc) (i32.const 0) (i32.const 0))
      (global.set $desc (local.get $at))
      (br $next))))

  ;; Rows of records, which are made when sites are matched: 0 next, 4 kind, 8 name of the function, 16 its number, 20 place, 24 name of the
  ;; instruction, 32 values. A kind is how many variables, then for each the rank of its type, where its value is, and its variable.
  (func $records (param $head i32) (param $ranks i32) (local $rank i32) (local $r i32) (local $n i32) (local $v i32)
    (loop $ranks
      (local.set $r (local.get $head))
      (block $done (loop $next
        (br_if $done (i32.eqz (local.get $r)))
        (local.set $v (i32.add (i32.load $own offset=4 (local.get $r)) (i32.const 4)))
        (local.set $n (i32.load $own (i32.load $own offset=4 (local.get $r))))
        (block $last (loop $vars
          (br_if $last (i32.eqz (local.get $n)))
          (if (i32.eq (i32.load $own (local.get $v)) (local.get $rank)) (then
            (call $site_row (i32.add (local.get $v) (i32.const 8)) (i32.add (local.get $r) (i32.load $own offset=4 (local.get $v)))
              (i32.load $own offset=8 (local.get $r)) (i32.load $own offset=12 (local.get $r)) (i32.load $own offset=16 (local.get $r)) (i32.load $own offset=20 (local.get $r))
              (i32.load $own offset=24 (local.get $r)) (i32.load $own offset=28 (local.get $r)))))
          (local.set $v (i32.add (local.get $v) (i32.const 52)))
          (local.set $n (i32.sub (local.get $n) (i32.const 1)))
          (br $vars)))
        (local.set $r (i32.load $own (local.get $r)))
        (br $next)))
      (br_if $ranks (i32.lt_u (local.tee $rank (i32.add (local.get $rank) (i32.const 1))) (local.get $ranks)))))

  ;; ---- shadows of tables: an address and a length; a function is its index and one, zero is not known

  (func $fid_get (param $shadow i32) (param $i i32) (result i32)
    (if (i32.ge_u (local.get $i) (i32.load $own offset=4 (local.get $shadow))) (then (return (i32.const -1))))
    (i32.sub (i32.load $own (i32.add (i32.load $own (local.get $shadow)) (i32.shl (local.get $i) (i32.const 2)))) (i32.const 1)))

  ;; An entry beyond the end is made only to be known.
  (func $fid_set (param $shadow i32) (param $i i32) (param $fid i32) (local $len i32) (local $at i32)
    (local.set $len (i32.load $own offset=4 (local.get $shadow)))
    (if (i32.ge_u (local.get $i) (local.get $len)) (then
      (if (i32.or (i32.eq (local.get $fid) (i32.const -1)) (i32.ge_u (local.get $i) (i32.const 0x400000))) (then (return)))
      (local.set $at (call $alloc (i32.shl (i32.shl (i32.add (local.get $i) (i32.const 8)) (i32.const 1)) (i32.const 2))))
      (memory.copy $own $own (local.get $at) (i32.load $own (local.get $shadow)) (i32.shl (local.get $len) (i32.const 2)))
      (i32.store $own (local.get $shadow) (local.get $at))
      (i32.store $own offset=4 (local.get $shadow) (i32.shl (i32.add (local.get $i) (i32.const 8)) (i32.const 1)))))
    (i32.store $own (i32.add (i32.load $own (local.get $shadow)) (i32.shl (local.get $i) (i32.const 2))) (i32.add (local.get $fid) (i32.const 1))))

  (func $fid_fill (param $shadow i32) (param $i i32) (param $fid i32) (param $n i32)
    (if (i32.eq (local.get $fid) (i32.const -1)) (then
      ;; Nothing has to be forgotten beyond the end.
      (if (i32.ge_u (local.get $i) (i32.load $own offset=4 (local.get $shadow))) (then (return)))
      (if (i32.gt_u (local.get $n) (i32.sub (i32.load $own offset=4 (local.get $shadow)) (local.get $i)))
        (then (local.set $n (i32.sub (i32.load $own offset=4 (local.get $shadow)) (local.get $i)))))))
    (block $done (loop $next
      (br_if $done (i32.eqz (local.get $n)))
      (local.set $n (i32.sub (local.get $n) (i32.const 1)))
      (call $fid_set (local.get $shadow) (i32.add (local.get $i) (local.get $n)) (local.get $fid))
      (br $next))))

  (func $fid_copy (param $to i32) (param $i i32) (param $from i32) (param $j i32) (param $n i32) (local $k i32) (local $step i32)
    (if (i32.eqz (local.get $n)) (then (return)))
    (local.set $step (i32.const 1))
    ;; What is moved up is moved from its end.
    (if (i32.gt_u (local.get $i) (local.get $j)) (then
      (local.set $step (i32.const -1))
      (local.set $k (i32.sub (local.get $n) (i32.const 1)))))
    (loop $next
      (call $fid_set (local.get $to) (i32.add (local.get $i) (local.get $k))
        (call $fid_get (local.get $from) (i32.add (local.get $j) (local.get $k))))
      (local.set $k (i32.add (local.get $k) (local.get $step)))
      (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))

  ;; From a segment: its functions lie at an address.
  (func $fid_init (param $to i32) (param $i i32) (param $at i32) (param $len i32) (param $j i32) (param $n i32) (local $k i32)
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $k) (local.get $n)))
      (br_if $done (i32.ge_u (i32.add (local.get $j) (local.get $k)) (local.get $len)))
      (call $fid_set (local.get $to) (i32.add (local.get $i) (local.get $k))
        (i32.sub (i32.load $own (i32.add (local.get $at) (i32.shl (i32.add (local.get $j) (local.get $k)) (i32.const 2)))) (i32.const 1)))
      (local.set $k (i32.add (local.get $k) (i32.const 1)))
      (br $next))))

  ;; ---- where writes go

  ;; Keeps everything, for the host to fetch.
  (func $write_kept (param $p i32) (param $n i32) (local $new i32) (local $room i32)
    (if (i32.gt_u (i32.add (global.get $kept_len) (local.get $n)) (global.get $kept_room)) (then
      (local.set $room (i32.shl (i32.add (global.get $kept_len) (i32.const 4096)) (i32.const 1)))
      (local.set $new (call $alloc (local.get $room)))
      (memory.copy $own $own (local.get $new) (global.get $kept) (global.get $kept_len))
      (global.set $kept (local.get $new))
      (global.set $kept_room (local.get $room))))
    (memory.copy $own $own (i32.add (global.get $kept) (global.get $kept_len)) (local.get $p) (local.get $n))
    (global.set $kept_len (i32.add (global.get $kept_len) (local.get $n))))

  ;; A report begins: it takes the place of the one before, if nothing was written since.
  (func $kept_begin
    (call $flush)
    (if (i32.eq (global.get $kept_len) (global.get $kept_to))
      (then (global.set $kept_len (global.get $kept_from))))
    (global.set $kept_from (global.get $kept_len)))

  (func $kept_end (global.set $kept_to (global.get $kept_len)))

  ;; Whether there was a report.
  (func $kept_any (result i32) (global.get $kept_to))

  (func $kept_report (result i32 i32) (global.get $kept) (global.get $kept_len))

  ;; Through the memory that the system knows, which is ours.
  (func $write_own (param $p i32) (param $n i32) (local $done i32)
    (block $end (loop $next
      (br_if $end (i32.eqz (local.get $n)))
      (i32.store $own (i32.const 144) (local.get $p))
      (i32.store $own (i32.const 148) (local.get $n))
      (br_if $end (call $fd_write (global.get $fd) (i32.const 144) (i32.const 1) (i32.const 152)))
      (local.set $done (i32.load $own (i32.const 152)))
      (br_if $end (i32.eqz (local.get $done)))
      (local.set $p (i32.add (local.get $p) (local.get $done)))
      (local.set $n (i32.sub (local.get $n) (local.get $done)))
      (br $next))))

  ;; Through the program's memory, which is the one that the system knows: its first kilobyte is lent, and given back as it was.
  (func $write_lent (param $p i32) (param $n i32) (local $part i32)
    (if (i32.eqz (memory.size $app)) (then
      (if (i32.eq (memory.grow $app (i32.const 1)) (i32.const -1)) (then (return)))))
    (memory.copy $own $app (i32.const 1280) (i32.const 0) (i32.const 1024))
    (block $end (loop $next
      (br_if $end (i32.eqz (local.get $n)))
      (local.set $part (select (local.get $n) (i32.const 1008) (i32.lt_u (local.get $n) (i32.const 1008))))
      (memory.copy $app $own (i32.const 16) (local.get $p) (local.get $part))
      (i32.store $app (i32.const 0) (i32.const 16))
      (i32.store $app (i32.const 4) (local.get $part))
      (br_if $end (call $fd_write (global.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
      (local.set $part (i32.load $app (i32.const 8)))
      (br_if $end (i32.eqz (local.get $part)))
      (local.set $p (i32.add (local.get $p) (local.get $part)))
      (local.set $n (i32.sub (local.get $n) (local.get $part)))
      (br $next)))
    (memory.copy $app $own (i32.const 0) (i32.const 1280) (i32.const 1024)))

  ;; Through the core library of a program that has one beside it.
  (func $write_core (param $p i32) (param $n i32) (local $at i32)
    (local.set $at (call $core_text (local.get $p) (local.get $n)))
    (call $core_puts (local.get $at) (local.get $n))
    (call $core_mem_free (local.get $at)))

  ;; A copy of a text in the memory of the core library.
  (func $core_text (param $p i32) (param $n i32) (result i32) (local $at i32)
    (local.set $at (call $core_mem_alloc (i32.add (local.get $n) (i32.const 1))))
    (memory.copy $core $own (local.get $at) (local.get $p) (local.get $n))
    (local.get $at))

  (func $core_map (param $map i32) (call $flush) (call $core_print_map (local.get $map)))

  (func $no_map (param $map i32) (unreachable))
  (func $no_f32 (param $x f32) (unreachable))
  (func $no_f64 (param $x f64) (unreachable))

  ;; ---- the environment: a row of texts NAME=VALUE, each with a zero byte behind it

  (func $env_own (local $n i32)
    (if (call $environ_sizes_get (i32.const 144) (i32.const 148)) (then (return)))
    (local.set $n (i32.shl (i32.load $own (i32.const 144)) (i32.const 2)))
    (global.set $env (i32.add (call $alloc (i32.add (local.get $n) (i32.load $own (i32.const 148)))) (local.get $n)))
    (if (i32.eqz (call $environ_get (i32.sub (global.get $env) (local.get $n)) (global.get $env)))
      (then (global.set $env_len (i32.load $own (i32.const 148))))))

  ;; The program's memory is lent as far as the environment needs it.
  (func $env_lent (local $n i32) (local $len i32) (local $copy i32)
    (if (i32.eqz (memory.size $app)) (then (return)))
    (local.set $copy (call $alloc (i32.const 8)))
    (memory.copy $own $app (local.get $copy) (i32.const 0) (i32.const 8))
    (if (i32.eqz (call $environ_sizes_get (i32.const 0) (i32.const 4))) (then
      (local.set $n (i32.shl (i32.load $app (i32.const 0)) (i32.const 2)))
      (local.set $len (i32.load $app (i32.const 4)))))
    (memory.copy $app $own (i32.const 0) (local.get $copy) (i32.const 8))
    (if (i64.gt_u (i64.add (i64.extend_i32_u (local.get $n)) (i64.extend_i32_u (local.get $len)))
                  (i64.shl (i64.extend_i32_u (memory.size $app)) (i64.const 16)))
      (then (return)))
    (local.set $copy (call $alloc (i32.add (local.get $n) (local.get $len))))
    (memory.copy $own $app (local.get $copy) (i32.const 0) (i32.add (local.get $n) (local.get $len)))
    (if (i32.eqz (call $environ_get (i32.const 0) (local.get $n))) (then
      (global.set $env (call $alloc (local.get $len)))
      (memory.copy $own $app (global.get $env) (local.get $n) (local.get $len))
      (global.set $env_len (local.get $len))))
    (memory.copy $app $own (i32.const 0) (local.get $copy) (i32.add (local.get $n) (local.get $len))))

  ;; The value of a variable, or what it is if it is not set.
  (func $env_or (param $name i32) (param $len i32) (param $p i32) (param $n i32) (result i32 i32) (local $at i32) (local $end i32) (local $size i32)
    (local.set $at (global.get $env))
    (local.set $end (i32.add (global.get $env) (global.get $env_len)))
    (block $done (loop $next
      (br_if $done (i32.ge_u (local.get $at) (local.get $end)))
      (local.set $size (i32.const 0))
      (block $last (loop $more
        (br_if $last (i32.eqz (i32.load8_u $own (i32.add (local.get $at) (local.get $size)))))
        (local.set $size (i32.add (local.get $size) (i32.const 1)))
        (br_if $more (i32.lt_u (i32.add (local.get $at) (local.get $size)) (local.get $end)))))
      (if (call $str_starts (local.get $at) (local.get $size) (local.get $name) (local.get $len)) (then
        (if (i32.eq (i32.load8_u $own (i32.add (local.get $at) (local.get $len))) (i32.const 61)) (then
          (return (i32.add (i32.add (local.get $at) (local.get $len)) (i32.const 1))
                  (i32.sub (i32.sub (local.get $size) (local.get $len)) (i32.const 1)))))))
      (local.set $at (i32.add (i32.add (local.get $at) (local.get $size)) (i32.const 1)))
      (br $next)))
    (local.get $p) (local.get $n))

  ;; The path of the report: a folder, and a file in it.
  (func $join (param $p i32) (param $n i32) (param $q i32) (param $m i32) (local $at i32)
    (local.set $at (call $alloc (i32.add (i32.add (local.get $n) (local.get $m)) (i32.const 1))))
    (memory.copy $own $own (local.get $at) (local.get $p) (local.get $n))
    (i32.store8 $own (i32.add (local.get $at) (local.get $n)) (i32.const 47))
    (memory.copy $own $own (i32.add (i32.add (local.get $at) (local.get $n)) (i32.const 1)) (local.get $q) (local.get $m))
    (global.set $path (local.get $at))
    (global.set $path_len (i32.add (i32.add (local.get $n) (local.get $m)) (i32.const 1))))

{folders}
  ;; Opens the file of the report in the first directory that has it or takes it, to append; stays with the console if there is none.
  (func $open_own (local $dir i32) (local $skip i32)
    (local.set $dir (i32.const 3))
    (loop $next
      (local.set $skip (call $below_own (local.get $dir) (i32.const 1280) (i32.const 1024)))
      (if (i32.ne (local.get $skip) (i32.const -1)) (then
        (if (i32.eqz (call $path_open (local.get $dir) (i32.const 1) (i32.add (global.get $path) (local.get $skip)) (i32.sub (global.get $path_len) (local.get $skip)) (i32.const 1) (i64.const 64) (i64.const 64) (i32.const 1) (i32.const 152)))
          (then (global.set $fd (i32.load $own (i32.const 152))) (return)))))
      (br_if $next (i32.lt_u (local.tee $dir (i32.add (local.get $dir) (i32.const 1))) (i32.const 16)))))

  (func $open_lent (local $dir i32) (local $skip i32)
    (if (i32.gt_u (global.get $path_len) (i32.const 1008)) (then (return)))
    (if (i32.eqz (memory.size $app)) (then
      (if (i32.eq (memory.grow $app (i32.const 1)) (i32.const -1)) (then (return)))))
    (memory.copy $own $app (i32.const 1280) (i32.const 0) (i32.const 1024))
    (local.set $dir (i32.const 3))
    (block $found (loop $next
      (local.set $skip (call $below_app (local.get $dir) (i32.const 16) (i32.const 1008)))
      (if (i32.ne (local.get $skip) (i32.const -1)) (then
        (memory.copy $app $own (i32.const 16) (i32.add (global.get $path) (local.get $skip)) (i32.sub (global.get $path_len) (local.get $skip)))
        (if (i32.eqz (call $path_open (local.get $dir) (i32.const 1) (i32.const 16) (i32.sub (global.get $path_len) (local.get $skip)) (i32.const 1) (i64.const 64) (i64.const 64) (i32.const 1) (i32.const 8)))
          (then (global.set $fd (i32.load $app (i32.const 8))) (br $found)))))
      (br_if $next (i32.lt_u (local.tee $dir (i32.add (local.get $dir) (i32.const 1))) (i32.const 16)))))
    (memory.copy $app $own (i32.const 0) (i32.const 1280) (i32.const 1024)))

  (export "alloc" (func $alloc)) (export "str_eq" (func $str_eq)) (export "str_starts" (func $str_starts)) (export "str_ends" (func $str_ends))
  (export "str_contains" (func $str_contains)) (export "str_number" (func $str_number)) (export "intern" (func $intern)) (export "map_like" (func $map_like)) (export "map_find" (func $map_find))
  (export "map_get" (func $map_get)) (export "map_delete" (func $map_delete)) (export "map_sorted" (func $map_sorted)) (export "flush" (func $flush))
  (export "putc" (func $putc)) (export "puts" (func $puts)) (export "put_u64" (func $put_u64)) (export "put_i64" (func $put_i64)) (export "put_hex" (func $put_hex))
  (export "put_bool" (func $put_bool)) (export "put_f32" (func $put_f32)) (export "put_f64" (func $put_f64)) (export "put_value" (func $put_value))
  (export "put_map" (func $put_map)) (export "rows" (func $rows)) (export "records" (func $records)) (export "write_kept" (func $write_kept))
  (export "kept_begin" (func $kept_begin)) (export "kept_end" (func $kept_end)) (export "kept_any" (func $kept_any))
  (export "kept_report" (func $kept_report)) (export "write_own" (func $write_own)) (export "write_lent" (func $write_lent)) (export "open_own" (func $open_own))
  (export "open_lent" (func $open_lent)) (export "write_core" (func $write_core)) (export "core_text" (func $core_text))
  (export "core_map" (func $core_map)) (export "no_map" (func $no_map)) (export "no_f32" (func $no_f32)) (export "no_f64" (func $no_f64)) (export "fid_get" (func $fid_get))
  (export "fid_fill" (func $fid_fill)) (export "fid_copy" (func $fid_copy)) (export "fid_init" (func $fid_init)) (export "put_map_csv" (func $put_map_csv)) (export "env_own" (func $env_own)) (export "env_lent" (func $env_lent))
  (export "settle" (func $settle)) (export "settle_chain" (func $settle_chain)) (export "env_or" (func $env_or)) (export "join" (func $join)))
