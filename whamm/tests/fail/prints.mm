wasm:opcode:call:before { print("{} {}", 1); print("{"); print(1, 2); print("{:x}", "a"); }
wasm:opcode:nop:before { print("at %08x in %d\n", pc, fid); print("100 %"); }
