// app: fac.wat
// An element that comes to zero again is there all the same.
report var m: map<u32, i32>;
report var u: map<u32, u32>;
wasm:func:entry { m[1]++; u[1] += 1; m[2] += 0; }
wasm:func:exit { m[1]--; u[1] += 4294967295; }
wasm:opcode:call:before { m[3] += 2; m[3]++; }
