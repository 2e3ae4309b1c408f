// Instruction count by function: the instructions that ran directly in each function.
//
//     map_id, executed, map<u32,u64>, i32, script0, , , , , 0->61;1->133;2->10
report var executed: map<u32, u64>;

wasm:block:end { executed[fid] += instr_count as u64; }
