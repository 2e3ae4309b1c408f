// app: control.wat
// Variables of activations: right under recursion and tail calls; the report has their sums for each function.
report frame var calls: i32;
frame var depth: u64 = 10;
report var most: u64;
wasm:opcode:call|call_indirect|return_call:before { calls++; depth += 1; if (depth > most) { most = depth; } }
wasm:opcode:local.get:before { report frame var reads: i32 = 100; reads++; report shared var all: i32; all++; }
