// app: numbered.wat
// option: imported
// The memories of a program have the numbers that the program gives them, also where others precede them.
use whamm_core;
wasm:opcode:i32.load:before {
    println("{}: {} pages, data from {}", memory, mem_size(memory), active_data_start(memory));
}
wasm:end { println("{} {} {}", mem_size(0), mem_size(1), mem_size(APP_MEMID)); }
