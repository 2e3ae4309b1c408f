wasm:opcode:call:before { for i in 0..true { } for k in 3 { } while (1) max 3 { } while (true) max 99999999999 { } continue; }
