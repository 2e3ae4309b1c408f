// no program
wasm:begin { memcpy(APP_MEMID, 0, memid(nobody), 8, 4); write_str(3 + true, 0, "x"); println(read_str("a", 0, 1)); u = mem_size(-1); }
