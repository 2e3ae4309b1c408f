// app: control.wat
// What is asked at events: immediates, categories, opcodes, places, names.
wasm:opcode:br_table:before {
    report var imms: (u32, u32, u32, u32, u32);
    imms = (imm0, imm1, imm2, imm3, num_targets);
}
wasm:opcode:i32.sub|call|br_if|i64.const|f64.div|i32.trunc_f64_s|global.get|i32.load|local.get|memory.grow|drop|i64.store32:before / fid > 1 && fid < 4 || fid == 7 && pc < 24 / {
    report var what: (u32, str, u16, u32);
    what = (category_id, category_name, bytecode, opidx);
}
wasm:opcode:memory.fill:before { report var prefixed: u16; prefixed = bytecode; }
wasm:func:entry / fname == "" / { report var nameless: (u32, u32); nameless = (fid, pc); }
wasm:opcode:i32.sub:before { report var operands: (i32, i32); operands = (arg0, arg1); }
