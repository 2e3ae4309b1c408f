// Instruction mix, with a variable for each kind: no map is needed while the program runs.
//
//     global_id, loads, u64, i64, script0, , , , , 1
report var arithmetic: u64;
report var comparisons: u64;
report var constants: u64;
report var control: u64;
report var loads: u64;
report var stores: u64;
report var locals: u64;
report var others: u64;

wasm:opcode:*:before / category_id == 0 / { arithmetic++; }
wasm:opcode:*:before / category_id == 2 / { comparisons++; }
wasm:opcode:*:before / category_id == 3 / { constants++; }
wasm:opcode:*:before / category_id == 4 / { control++; }
wasm:opcode:*:before / category_id == 9 / { loads++; }
wasm:opcode:*:before / category_id == 15 / { stores++; }
wasm:opcode:*:before / category_id == 10 / { locals++; }
wasm:opcode:*:before / category_id == 1 || (category_id > 4 && category_id != 9 && category_id != 10 && category_id != 15) / { others++; }
