// app: control.wat
// What a probe returns that replaces nothing is dropped, and ends the probe.
report var n: i32; report var exits: u32;
wasm:opcode:br_table:before { n++; if (n > 10) { return n as u64; } n += 10; }
wasm:func:exit { exits++; return (1, "text"); }
wasm:report { println("{} {}", n, exits); return true; }
