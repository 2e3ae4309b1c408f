// Allocations: how much was asked of functions called `malloc`, by the caller; and by how many pages the memory grew.
//
//     map_id, bytes, map<u32,u64>, i32, script0, , , , , 3->96
report var bytes: map<u32, u64>;
report var requests: map<u32, u32>;
report var pages: u32;

wasm:opcode:call(arg0: i32):before / imm0 == 1 / {
    bytes[fid] += arg0 as u32 as u64;
    requests[fid]++;
}

wasm:opcode:memory.grow:before { pages += arg0; }
