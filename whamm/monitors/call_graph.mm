// Call graph: how often which function called which, by their numbers; only direct calls.
//
//     map_id, edges, map<(u32,u32),u32>, i32, script0, , , , , (0,0)->4;(2,0)->1;(2,1)->1
report var edges: map<(u32, u32), u32>;

wasm:opcode:call:before { edges[(fid, imm0)]++; }
