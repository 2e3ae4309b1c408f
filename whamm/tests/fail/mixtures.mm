wasm:opcode:br_if:before / pc == 1 || pc == 2 && pc == 3 / { var b: bool = (true || false) && true; b = true && false || b; }
