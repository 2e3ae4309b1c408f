// app: start.wat
// changes what the program gives
report var blocks: i32;
wasm:opcode:block:alt { blocks++; }
wasm:opcode:if:alt { blocks += 10; }
