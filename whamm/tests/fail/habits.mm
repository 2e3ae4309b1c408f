use cache
opcode:call:before { report var c: i32; c++; }
wasm:opcode:load:before { report var n: int; n++; }
wasm:opcode:i32.load:before { report var a: u32 a = efective_addr; a++ }
wasm:opcode:call:before / fname = "main" / { cache.f(1); }
wasm:opcode:call:before { let x = 3; x++; for (i = 0; i < 3; i++) { x++; } printf("%d", fid); report m: map<string, i32>; m["a"]++; }
wasm:opcode:br_if:before { if (arg0) { report var s: str; s = "calls " + fid; } if (taken == 1) { return; } if (pc - 1 < 0) { return; } }
fn f(x) { return x; }
wasm:func:enter { f(1); }
wasm:func:entry { if (fname == main) { f(2); } }
