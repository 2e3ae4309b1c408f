var x: bool;
wasm:opcode:end:before { x = at_func_end || is_func_end && x; x = op_name == "end"; }
wasm:opcode:call:before { }
