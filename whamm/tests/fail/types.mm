var x: i32; var y: u32; var m: map<i32, i32>; var t: (i32, bool); var s: str; var b: bool;
wasm:opcode:call:before {
    x = y; x = x + y; b = x; x = true; m["a"] = 1; m = m; t.2 = 1; x.0 = 1; s = s + s; b = s < s; x = s as i32; b = b + b; x = b && x;
    x += true; b++; x = !x; b = ~b; s = -s; x = nothing; nothing(3); x.len(); s.nothing(); m.size(1); x = x[1]; b = (1, 2) == (1, 2);
    frame report var g: map<i32, i32>;
    report var r: funcref; var empty: (); var bad: map<map<i32, i32>, i32>;
    break;
}
