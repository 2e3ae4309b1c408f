// app: control.wat
report var last: i32;
report var both: (i32, bool);
report var power: u64;
fn clamp(x: i32, low: i32, high: i32) -> i32 {
    if (x < low) { return low; } elif (x > high) { return high; } else { return x; }
}
fn fib(n: u64) -> u64 { if (n < 2) { return n; } return fib(n - 1) + fib(n - 2); }
fn halves(x: i32) -> (i32, bool) { return (x / 2, x % 2 == 1); }
fn note(x: i32) { last += x; }
wasm:func:entry / fname.starts_with("s") / {
    note(clamp(fid as i32 * 3, 4, 8));
    both = halves(7);
    power = fib(10);
    var i: u32;
    while (i < 100) max 7 { i++; if (i == 3) { continue; } power += 1; }
    for j in 2..5 { power += j as u64 * 1000; }
    var low: i32 = 1; var ends: (i32, i32) = (2, 4);
    for j in low..ends.1 { power += 100000; }
    return;
}
