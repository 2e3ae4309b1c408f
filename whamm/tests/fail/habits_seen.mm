wasm:opcode:i32.load:before { report var a: u32; a = efective_addr; }
wasm:opcode:br_if:before { if (arg0) { report var s: str; s = "calls " + fid; } if (taken == 1) { return; } if (pc - 1 < 0) { return; } }
wasm:func:entry { if (fname == main) { return; } report var n: i32 = nothing; n++; }
