// Instruction count: how many instructions were executed altogether.
//
//     0, global_id, executed, u64, i64, script0, , , , , 204
report var executed: u64;

wasm:opcode:*:before { executed++; }
