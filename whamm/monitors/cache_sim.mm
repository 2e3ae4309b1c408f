// Cache simulation: hits and misses of a direct-mapped cache, which is the library `cache` beside this script.
// What it usually finds is that nothing is missing: this is asked first, and changes nothing.
//
//     global_id, hits, u64, i64, script0, , , , , 2
use cache;
report var hits: u64;
report var misses: u64;
wasm:opcode:i32.load*|i64.load*|f32.load|f64.load|i32.store*|i64.store*|f32.store|f64.store:before {
    if (cache.missing(effective_addr as i32, data_size as i32) == 0) {
        hits++;
    } elif (cache.access(effective_addr as i32, data_size as i32) == 0) {
        hits++;
    } else {
        misses++;
    }
}
