wasm:opcode:call:before { var x i32; x = 3 }
wasm:opcode:call:before { y = ; z == 3; if x { } var arg0: i32; return 1 }
var 3: i32;
while: fn
wasm:opcode:call:before { while (true) { } }
