wasm:opcode:call:before { print("{} {}", 1); print("{"); print(1, 2); print("{:x}", "a"); }
