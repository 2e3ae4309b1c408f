wasn:opcode:call:before { }
wasm:opcod:call:before { }
wasm:opcode:i32.ad:before { }
wasm:opcode:call:befor { }
wasm:func:entry:before { }
wasm:opcode:call { }
wasm:opcode:block:semantic_after { }
wasm { }
