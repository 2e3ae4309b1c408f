// Instruction mix, short: how many instructions of each category were executed.
//
//     map_id, mix, map<u32,u32>, i32, script0, , , , , 0->29;2->16;3->24;4->58;9->1;10->75;15->1
//
// The categories: arith 0, atomic 1, compare 2, const 3, control 4, convert 5, exn 6, gc 7, global 8, load 9, local 10, memory 11, misc 12,
// ref 13, simd 14, store 15, table 16.
report var mix: map<u32, u32>;
wasm:opcode:*:before { mix[category_id]++; }
