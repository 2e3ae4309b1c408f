// app: control.wat
wasm:opcode:br_table:before / target < 2 / { report var m: map<u32, i32>; m[target]++; report var n: u32; n = num_targets; report var d: u32; d = default_target; report var t: u32; t = targets[1]; }
wasm:opcode:br_if|if:before / taken / { report var yes: i32; yes++; }
wasm:opcode:*div*|*load*|*trunc*:before / !trap / { report var fine: i32; fine++; }
wasm:opcode:*load*|*store*:before / effective_addr >= 64 / { report var a: u32; a = effective_addr; report var s: u32; s = data_size; report var w: bool; w = is_write; report var o: u64; o = offset; report var g: u32; g = align; report var mem: u32; mem = memory; }
wasm:opcode:call_indirect:before / resolved_fid == 2 / { report var r: i32; r = resolved_fid; report var i: i32; i = table_entry_idx; }
wasm:opcode:call:before / target_fn_type == "import" && target_imp_module == "env" / { report var name: str; name = target_fn_name; report var k: u32; k = imm0; report var ord: u32; ord = opidx; }
