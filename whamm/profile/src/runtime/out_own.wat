  ;; Through the memory that WASI knows, which is ours.
  (func $flush (local $from i32)
    (local.set $from (i32.const 512))
    (block $end (loop $next
      (br_if $end (i32.le_s (global.get $fill) (i32.const 0)))
      (i32.store $own (i32.const 320) (local.get $from))
      (i32.store $own (i32.const 324) (global.get $fill))
      (i32.store $own (i32.const 328) (i32.const 0))
      (br_if $end (call $fd_write (global.get $fd) (i32.const 320) (i32.const 1) (i32.const 328)))
      (br_if $end (i32.eqz (i32.load $own (i32.const 328))))
      (local.set $from (i32.add (local.get $from) (i32.load $own (i32.const 328))))
      (global.set $fill (i32.sub (global.get $fill) (i32.load $own (i32.const 328))))
      (br $next)))
    (call $lose_rest))
