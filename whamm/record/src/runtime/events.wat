;; Events as a trace has them, in blocks whose contents are deflated by being stored.
;;
;;   $head  13 bytes: kind, stored, plain, check │ 5 bytes: a stored deflate block │ $plain: the events

  ;; Whether the host runs (0) or the program (1); how many calls of the host's wait.
  (global $inside (export "inside") (mut i32) (i32.const 0))
  (global $depth (export "depth") (mut i32) (i32.const 0))
  ;; Before a call whose callee its instruction does not name: the table's index and 1, or -1; and which element.
  (global $via (export "via") (mut i32) (i32.const 0))
  (global $via_index (export "via_index") (mut i32) (i32.const 0))
  ;; Whether the trace goes on; whether anything was written.
  (global $alive (export "alive") (mut i32) (i32.const 1))
  (global $opened (mut i32) (i32.const 0))
  (global $events (mut i64) (i64.const 0))
  ;; Where the next byte goes, and where the event begins that is written.
  (global $at (mut i32) (i32.const 0))
  (global $mark (mut i32) (i32.const 0))

  (func $byte (export "byte") (param $byte i32)
    (i32.store8 $own (global.get $at) (local.get $byte))
    (global.set $at (i32.add (global.get $at) (i32.const 1))))

  (func $number (export "number") (param $value i64)
    (block $end (loop $next
      (br_if $end (i64.lt_u (local.get $value) (i64.const 128)))
      (call $byte (i32.or (i32.wrap_i64 (i64.and (local.get $value) (i64.const 127))) (i32.const 128)))
      (local.set $value (i64.shr_u (local.get $value) (i64.const 7)))
      (br $next)))
    (call $byte (i32.wrap_i64 (local.get $value))))

  (func $word (param $value i32)
    (i32.store $own (global.get $at) (local.get $value))
    (global.set $at (i32.add (global.get $at) (i32.const 4))))
  (func $long (param $value i64)
    (i64.store $own (global.get $at) (local.get $value))
    (global.set $at (i32.add (global.get $at) (i32.const 8))))

  (func (export "i32") (param i32) (call $byte (i32.const 0x7f)) (call $word (local.get 0)))
  (func (export "i64") (param i64) (call $byte (i32.const 0x7e)) (call $long (local.get 0)))
  (func (export "f32") (param i32) (call $byte (i32.const 0x7d)) (call $word (local.get 0)))
  (func (export "f64") (param i64) (call $byte (i32.const 0x7c)) (call $long (local.get 0)))
  (func (export "v128") (param i64 i64)
    (call $byte (i32.const 0x7b)) (call $long (local.get 0)) (call $long (local.get 1)))
  ;; Whether there is an object of the host.
  (func $object (export "object") (param i32)
    (if (local.get 0) (then (call $byte (i32.const 0x6e)))
      (else (call $byte (i32.const 0x6f)) (call $byte (i32.const 0)))))
  (func (export "null") (param i32) (call $byte (local.get 0)) (call $byte (i32.const 0)))
  ;; The index of a function and 1, or 0.
  (func $function (export "function") (param $function i32)
    (call $byte (i32.const 0x70)) (call $number (i64.extend_i32_u (local.get $function))))
  ;; The index of a function and 1: whether it is none.
  (func (export "reference") (param $function i32) (result i32)
    (if (local.get $function) (then
      (call $byte (i32.const 0x70)) (call $number (i64.extend_i32_u (local.get $function)))))
    (i32.eqz (local.get $function)))
  (func (export "text") (param $from i32) (param $len i32)
    (call $number (i64.extend_i32_u (local.get $len)))
    (call $copy (local.get $from) (local.get $len)))
  (func $copy (param $from i32) (param $len i32)
    (memory.copy $own $own (global.get $at) (local.get $from) (local.get $len))
    (global.set $at (i32.add (global.get $at) (local.get $len))))

  ;; An event comes next. Where the trace has ended, its bytes go nowhere.
  (func $begin (export "begin") (param $kind i32)
    (if (i32.eqz (global.get $alive)) (then (global.set $at (global.get $plain))))
    (if (i32.ge_u (i32.sub (global.get $at) (global.get $plain)) (i32.const 32768)) (then (call $flush)))
    (global.set $mark (global.get $at))
    (global.set $tail (i32.const 0))
    (global.set $events (i64.add (global.get $events) (i64.const 1)))
    (call $byte (local.get $kind)))

  ;; No event is being written.
  (func (export "between") (global.set $mark (global.get $at)))
  ;; An event that has to stand before the one that is being written.
  (func $insert (param $event i32) (param $len i32) (local $end i32)
    ;; What was written may be gone already.
    (if (i32.gt_u (global.get $mark) (global.get $at)) (then (global.set $mark (global.get $at))))
    (local.set $end (i32.add (global.get $mark) (local.get $len)))
    (memory.copy $own $own (local.get $end) (global.get $mark) (i32.sub (global.get $at) (global.get $mark)))
    (memory.copy $own $own (global.get $mark) (local.get $event) (local.get $len))
    (global.set $mark (local.get $end))
    (global.set $at (i32.add (global.get $at) (local.get $len)))
    (global.set $tail (i32.const 0))
    (global.set $events (i64.add (global.get $events) (i64.const 1))))

  ;; What was found last: where its event ends, if it is the last one; where its length is, in two bytes; its memory,
  ;; its length, and the address behind it.
  (global $tail (mut i32) (i32.const 0))
  (global $length_at (mut i32) (i32.const 0))
  (global $found_memory (mut i32) (i32.const 0))
  (global $found_len (mut i32) (i32.const 0))
  (global $found_end (mut i64) (i64.const 0))
  ;; Whether so many bytes belong to it.
  (func $goes_on (param $memory i32) (param $a i64) (param $n i32) (result i32)
    (i32.and
      (i32.and (i32.eq (global.get $at) (global.get $tail)) (i32.eq (local.get $memory) (global.get $found_memory)))
      (i32.and (i64.eq (local.get $a) (global.get $found_end))
        (i32.lt_u (i32.add (global.get $found_len) (local.get $n)) (i32.const 16384)))))
  (func $open_length (param $memory i32)
    (global.set $found_memory (local.get $memory))
    (global.set $found_len (i32.const 0))
    (global.set $length_at (global.get $at))
    (global.set $at (i32.add (global.get $at) (i32.const 2))))
  ;; So many bytes come next.
  (func $longer (param $a i64) (param $n i32)
    (global.set $found_len (i32.add (global.get $found_len) (local.get $n)))
    (global.set $found_end (i64.add (local.get $a) (i64.extend_i32_u (local.get $n))))
    (global.set $tail (i32.add (global.get $at) (local.get $n)))
    (i32.store8 $own (global.get $length_at) (i32.or (global.get $found_len) (i32.const 128)))
    (i32.store8 $own offset=1 (global.get $length_at) (i32.shr_u (global.get $found_len) (i32.const 7))))

  (func $flush (export "flush")
    (if (i32.gt_u (global.get $at) (global.get $plain)) (then (call $block (i32.const 3)))))

  ;; What stands at $plain becomes a block.
  (func $block (param $kind i32) (local $n i32) (local $crc i32)
    (if (i32.eqz (global.get $opened)) (then
      (global.set $opened (i32.const 1))
      (call $crc_table)
      (if (call $open) (then (call $out (global.get $heading) (global.get $heading_len)))
        (else (global.set $alive (i32.const 0))))))
    (local.set $n (i32.sub (global.get $at) (global.get $plain)))
    (global.set $at (global.get $plain))
    (if (i32.eqz (global.get $alive)) (then (return)))
    (i32.store8 $own (global.get $head) (local.get $kind))
    (i32.store $own offset=1 (global.get $head) (i32.add (local.get $n) (i32.const 5)))
    (i32.store $own offset=5 (global.get $head) (local.get $n))
    (i32.store8 $own offset=13 (global.get $head) (i32.const 1))
    (i32.store16 $own offset=14 (global.get $head) (local.get $n))
    (i32.store16 $own offset=16 (global.get $head) (i32.xor (local.get $n) (i32.const -1)))
    (local.set $crc (call $crc (i32.const -1) (global.get $head) (i32.const 9)))
    (local.set $crc (call $crc (local.get $crc) (i32.add (global.get $head) (i32.const 13)) (i32.add (local.get $n) (i32.const 5))))
    (i32.store $own offset=9 (global.get $head) (i32.xor (local.get $crc) (i32.const -1)))
    (call $out (global.get $head) (i32.add (local.get $n) (i32.const 18))))

  ;; CRC-32 (IEEE 802.3), byte by byte.
  (func $crc_table (local $i i32) (local $c i32) (local $bit i32)
    (loop $next
      (local.set $c (local.get $i))
      (local.set $bit (i32.const 8))
      (loop $bits
        (local.set $c (i32.xor (i32.shr_u (local.get $c) (i32.const 1))
          (select (i32.const 0xedb88320) (i32.const 0) (i32.and (local.get $c) (i32.const 1)))))
        (br_if $bits (local.tee $bit (i32.sub (local.get $bit) (i32.const 1)))))
      (i32.store $own offset=2048 (i32.shl (local.get $i) (i32.const 2)) (local.get $c))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 256)))))
  (func $crc (param $crc i32) (param $from i32) (param $len i32) (result i32) (local $end i32)
    (local.set $end (i32.add (local.get $from) (local.get $len)))
    (loop $next
      (local.set $crc (i32.xor (i32.shr_u (local.get $crc) (i32.const 8))
        (i32.load $own offset=2048 (i32.shl (i32.and (i32.xor (local.get $crc) (i32.load8_u $own (local.get $from))) (i32.const 255)) (i32.const 2)))))
      (br_if $next (i32.lt_u (local.tee $from (i32.add (local.get $from) (i32.const 1))) (local.get $end))))
    (local.get $crc))

  ;; The trace ends, with a reason if it is not the program's end.
  (func $end (param $why i32) (param $len i32)
    (if (i32.eqz (global.get $alive)) (then (return)))
    (call $flush)
    (call $number (global.get $events))
    (call $number (i64.extend_i32_u (local.get $len)))
    (call $copy (local.get $why) (local.get $len))
    (call $block (i32.const 4))
    (if (global.get $alive) (then (call $close)))
    (global.set $alive (i32.const 0)))
  ;; Calls of the host's have ended, down to so many, and it was not seen how: a trap, or an exception that has no tag
  ;; here. The innermost was the program's where it ran; every other one was ended by that.
  (func $unwind (export "unwind") (param $left i32)
    (block $end (loop $next
      (br_if $end (i32.le_u (global.get $depth) (local.get $left)))
      (if (i32.eqz (global.get $inside)) (then
        (call $begin (i32.const 4)) (call $byte (i32.const 2)) (call $byte (i32.const 0))))
      (call $begin (i32.const 2)) (call $byte (i32.const 2)) (call $byte (i32.const 0))
      (call $left)
      (br $next)))
    (global.set $via (i32.const 0)))
  (func $left
    (global.set $inside (i32.const 0))
    (global.set $depth (i32.sub (global.get $depth) (i32.const 1))))
  ;; The program traps next, for this reason.
  (func (export "traps") (param $why i32) (param $len i32)
    (call $begin (i32.const 2)) (call $byte (i32.const 2))
    (call $number (i64.extend_i32_u (local.get $len)))
    (call $copy (local.get $why) (local.get $len))
    (call $left)
    (global.set $via (i32.const 0)))
  ;; The host ends the trace: a program that has not given control back was ended by a trap.
  (func $finish (export "finish")
    (if (i32.and (global.get $inside) (i32.ne (global.get $depth) (i32.const 0)))
      (then (call $unwind (i32.sub (global.get $depth) (i32.const 1)))))
    (if (global.get $depth) (then (call $end (global.get $unended) (global.get $unended_len)))
      (else (call $end (i32.const 0) (i32.const 0)))))
  ;; The event that is being written, or comes next, cannot be told.
  (func (export "stop") (param $why i32) (param $len i32) (param $is_begun i32)
    (if (i32.eqz (global.get $alive)) (then (return)))
    (if (local.get $is_begun) (then
      (global.set $at (global.get $mark))
      (global.set $events (i64.sub (global.get $events) (i64.const 1)))))
    (call $end (local.get $why) (local.get $len)))

  ;; The program exits: all calls end.
  (func (export "exits") (param $code i32) (local $depth i32) (local $kind i32)
    (local.set $depth (i32.mul (global.get $depth) (i32.const 2)))
    (local.set $kind (i32.const 4))
    (block $end (loop $next
      (br_if $end (i32.eqz (local.get $depth)))
      (call $begin (local.get $kind))
      (call $byte (i32.const 1))
      (call $word (local.get $code))
      (call $number (i64.const 0))
      (local.set $kind (i32.xor (local.get $kind) (i32.const 6)))
      (local.set $depth (i32.sub (local.get $depth) (i32.const 1)))
      (br $next)))
    (call $end (i32.const 0) (i32.const 0)))
