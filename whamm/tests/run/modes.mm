// app: control.wat
wasm:opcode:call:after { report var n: i32; n++; }
wasm:opcode:call(res0: i32):after { report var last: i32; last = res0; }
wasm:opcode:memory.grow:after { report var bad: bool; bad = failed; report var was: u32; was = arg0; }
wasm:opcode:loop|block|if:entry { report var e: i32; e++; }
wasm:opcode:loop|block|if:exit { report var x: i32; x++; }
wasm:opcode:loop|block|if:after { report var a: i32; a++; }
wasm:opcode:br_if|br_table:at_target { report var t: i32; t++; }
wasm:opcode:br_if:after { report var fell: i32; fell++; }
wasm:opcode:end:before { report var ended: i32; ended++; }
wasm:opcode:loop:before { report var rounds: i32; rounds++; }
wasm:func:exit { report var left: i32; left++; }
wasm:block:start { report var b: i32; b++; }
