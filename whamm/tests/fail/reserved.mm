// Variables outside of probes that are named like variables of the event.
var targets: map<i32, i32>; var pc: i32;
wasm:opcode:br_table:before { targets[0] = 1; }
wasm:opcode:nop:before { targets[0] = 1; pc++; }
wasm:opcode:br_table|br:before / pc == 1 / { }
var APP_MEMID: u32;
engine:trap { var code: i32; println(opname); }
wasm:func:entry { println(opname); }
