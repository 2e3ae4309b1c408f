wasm:opcode:call:before { drop_args(); alt_call_by_id(1); dup_at(1, 2); }
