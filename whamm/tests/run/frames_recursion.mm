// app: fac.wat
frame var own: i32;
report var entries: map<i32, i32>;
report shared var s: i32;
wasm:func:entry { own = 0; }
wasm:opcode:local.get:before { own++; }
wasm:func:exit { entries[own]++; }
