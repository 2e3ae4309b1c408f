use whamm_core;
var total: i32;
total = 3;
fn twice(x: i32) -> i32 { return x * 2; }
fn forever(n: i32) -> i32 { if (n == 0) { return 0; } elif (n < 0) { return 1; } else { return forever(n - 1); } }
wasm:opcode:i32.add:before / (pc / 2) > 3 / {
    for i in 0..10 { if (i == 3) { continue; } elif (i == 5) { break; } total += i; }
    while (total < 100) max 50 { total += 1; }
    total -= 1; total *= 2; total /= 3; total %= 7; total &= 0xF; total |= 1; total ^= 2; total <<= 1; total >>= 1;
    total = twice(forever(total)) + (true ? 1 : 2);
    print("{} {:x} {{}}\n", total, total);
    println();
    println(total);
    if (total > 3) { return; }
    total = ~total | -total;
}
fn e_unused() -> bool { return !!true; }
wasm:opcode:nop:before {
    if (total == 0) { total = 1; };
    if (total == 2) { total = 3; } else { total = 4; };
    whamm_core.putbool(total);
    whamm_core.putbool(total != 0);
}
