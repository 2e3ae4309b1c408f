  ;; The host has filled buffers, {K}'s: all of it is read, before the program changes any. Read byte by byte, each byte
  ;; that happens to be what was there would begin another event.
  (func (export "filled:{K}") (param $list i32) (param $count i32) (local $at i64)
    (block $end (loop $next
      (br_if $end (i32.eqz (local.get $count)))
      (local.set $at (i64.extend_i32_u (local.get $list)))
      (br_if $end (i32.eqz (call $fits{K} (local.get $at) (i64.const 8))))
      (call $check{K} (i64.load32_u $m{K} (local.get $list)) (i64.load32_u $m{K} offset=4 (local.get $list)))
      (local.set $list (i32.add (local.get $list) (i32.const 8)))
      (local.set $count (i32.sub (local.get $count) (i32.const 1)))
      (br $next))))
