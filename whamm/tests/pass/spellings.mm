// As the paper and reports of version 2.0.1 spell them.
wasm:function:exit { report var a: u32; a++; }
wasm:function:entry { report var b: u32; b++; }
wasm:opcode:br_if:semantic_after { report var c: u32; c++; }
wasm:opcode:block:semantic_after { report var d: u32; d++; }
wasm:opcode:block:block_alt { }
