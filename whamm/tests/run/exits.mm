// app: exit.wat
wasm:opcode:call*:before { report var n: i32; n++; }
wasm:func:entry { report var e: i32; e++; }
wasm:begin { println("begins {}", 1 + 2 * 3); }
wasm:end { println("ends {:x} {} {} {}", 255 as u8, -1.5, true, (1, "x")); }
