var n: i32;
wasm:opcode:*:before { n++; }
wasm::br:before { n++; }
wasm:opcode:*load*|*store*:before { n++; }
wasm:opcode:i[36][24].add:after { n++; }
wasm:opcode:CALL:before { n++; }
wasm:opcode:block|loop|if|else:entry { n++; }
wasm:opcode:block:exit { n++; }
wasm:opcode:br_table:at_target { n++; }
wasm:opcode:nop:alt { }
wasm:func:entry { n++; }
wasm:func:exit { n++; }
wasm:func:unwind { n++; }
wasm:block:start { n++; }
wasm:block:end { n = instr_count as i32; }
wasm:report { n = 0; }
wasm:begin { n = 1; }
wasm:end { n = 2; }
wasm:opcode:v128.*|i8x16.*|f32x4.relaxed_madd:before { n++; }
wasm(local0: i32):opcode:local.get:before / local0 == imm0 as i32 / { n++; }
wasm:opcode(arg0: i32):call:before { n = arg0; }
wasm:opcode:local.set<T: numeric>(arg0: T):before { report var a: T; a = arg0 + 1; }
wasm:opcode:select<T>(arg0: i32, arg1: T, arg2: T):before { report var both: T; both = arg1 + arg2; }
