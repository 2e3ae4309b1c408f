// app: tables.wat
// What entries hold is followed; what comes in as a value is not known.
wasm:opcode:call_indirect:before { println("calls {}", resolved_fid); }
wasm:opcode:table.set:before { println("sets {}", resolved_fid); }
wasm:opcode:table.get:before { println("gets {}", resolved_fid); }
