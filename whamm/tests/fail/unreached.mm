use whamm_core;
use whamm_core;
fn f(n: i32) -> i32 { if (n > 1) { return 1; } else { return 2; } n++; return 3; }
wasm:opcode:call:before { return; var x: i32 = f(1); x++; }
wasm:opcode:nop:before { for i in 0..3 { if (i == 1) { continue; println(i); } break; } println(2); }
wasm:opcode:i32.const:alt { return 1; return 2; }
