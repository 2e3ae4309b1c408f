// app: control.wat
wasm:opcode:i32.add:alt { drop_args(); }
wasm:opcode:i32.add:alt { drop_args(); }
