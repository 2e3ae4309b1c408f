// app: sieve.wat
wasm:opcode:i32.const:before / imm0 == 1 / { report var a: u32 = page_size(99); report var b: u32 = active_data_start(99); }
wasm:opcode:i32.add:before { report var c: u32 = active_data_len(99 as u32); report var d: u32; d = mem_size(99); }
