;; The program of the cookbook: a shop that adds up orders. It prints nothing, and ends with exit code 0.
(module
  (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
  (type $rebate (func (param i32) (result i32)))
  (table funcref (elem $no_rebate $rebate_of_ten $rebate_of_half))
  (memory (export "memory") 1)
  (global $free (mut i32) (i32.const 1024))

  (func $malloc (param $bytes i32) (result i32)
    (global.get $free)
    (global.set $free (i32.add (global.get $free) (local.get $bytes))))

  (func $no_rebate (param $price i32) (result i32) (local.get $price))
  (func $rebate_of_ten (param $price i32) (result i32)
    (i32.sub (local.get $price) (i32.div_u (local.get $price) (i32.const 10))))
  (func $rebate_of_half (param $price i32) (result i32) (i32.shr_u (local.get $price) (i32.const 1)))

  ;; An order is two words: a price, and which rebate it has.
  (func $order (param $number i32) (result i32) (local $order i32)
    (local.set $order (call $malloc (i32.const 8)))
    (i32.store (local.get $order) (i32.mul (local.get $number) (i32.const 30)))
    (i32.store offset=4 (local.get $order) (i32.rem_u (local.get $number) (i32.const 3)))
    (local.get $order))

  (func $total (param $orders i32) (result i32) (local $number i32) (local $order i32) (local $sum i32)
    (loop $next
      (local.set $order (call $order (local.get $number)))
      (local.set $sum (i32.add (local.get $sum)
        (call_indirect (type $rebate) (i32.load (local.get $order)) (i32.load offset=4 (local.get $order)))))
      (br_if $next (i32.lt_u (local.tee $number (i32.add (local.get $number) (i32.const 1))) (local.get $orders))))
    (local.get $sum))

  (func $mean (param $sum i32) (param $orders i32) (result f64)
    (f64.div (f64.convert_i32_u (local.get $sum)) (f64.convert_i32_u (local.get $orders))))

  (func (export "_start")
    (drop (call $mean (call $total (i32.const 12)) (i32.const 12)))
    (call $proc_exit (i32.const 0))))
