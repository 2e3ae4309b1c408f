// Every variable of events, with its type.
report var u: u32; report var i: i32; report var l: u64; report var h: u16; report var b: bool; report var s: str; report var m: map<u32, u32>;
report var j: i64; report var f: f32; report var d: f64;
u = APP_MEMID;
wasm:func:entry { u = fid + pc + opidx; b = at_func_end; s = fname; }
wasm(local0: i64, local3: f32):func:exit { j = local0; f = local3; }
wasm:block:end { u = instr_count; }
wasm:opcode:*:before { u = category_id; s = category_name; s = opname; i = probe_id; s = file; u = line; }
wasm:opcode:i32.add:before { h = bytecode; i = arg0 + arg1; b = trap; }
wasm:opcode:i32.lt_u|i32.div_u|f32.convert_i32_u:before { u = arg0; }
wasm:opcode:i64.lt_u:before { l = arg0 + arg1; }
wasm:opcode:i64.div_u|i64.add:before { j = arg0 + arg1; }
wasm:opcode:f32.add:before { f = arg0 + arg1; }
wasm:opcode:f64.sqrt:before { d = arg0; }
wasm:opcode:i32.eqz:after { b = res0 != 0; }
wasm:opcode:block|loop(arg0: i32, arg1: f64):before { i = arg0; d = arg1; }
wasm:opcode:if:before { u = arg0; b = taken; }
wasm:opcode:br:before { u = imm0; b = taken; }
wasm:opcode:br_if:before { u = arg0 + imm0; b = taken; }
wasm:opcode:br_table:before { u = arg0 + imm0 + imm7 + num_targets + default_target + target + targets[3]; b = taken; }
wasm:opcode:call(arg0: i32, res0: f64):after { i = arg0; d = res0; u = imm0; s = target_imp_module; s = target_fn_name; s = target_fn_type; }
wasm:opcode:return_call(arg0: i64):before { j = arg0; u = imm0; s = target_fn_name; s = target_fn_type; s = target_imp_module; }
wasm:opcode:call_indirect|return_call_indirect:before { i = arg0 + table_entry_idx + resolved_fid; u = imm0 + imm1; b = trap; var r: funcref; r = target_funcref; i = resolve_funcref(target_funcref, table_entry_idx); }
wasm:opcode:call_indirect(arg1: f64, res0: i32):after { d = arg1; i = res0; }
wasm:opcode:call_ref|return_call_ref|table.set:before { u = imm0; i = resolved_fid; }
wasm:opcode:table.get:before { u = imm0; i = arg0 + table_entry_idx + resolved_fid; var r: funcref; r = target_funcref; }
wasm:opcode:ref.func:before { u = imm0; i = resolved_fid; }
wasm:opcode:throw(arg0: i32):before { i = arg0; u = imm0; }
wasm:opcode:drop|select(arg0: i32):before { i = arg0; }
wasm:opcode:br_on_null|br_on_non_null|br_on_cast|br_on_cast_fail:before { b = taken; }
wasm:opcode:br_on_non_null|table.fill|table.grow:before { u = imm0; }
wasm:opcode:local.get|global.get|data.drop|elem.drop|table.size:before { u = imm0; }
wasm:opcode:local.set|local.tee|global.set(arg0: f64):before { d = arg0; u = imm0; }
wasm:opcode:i32.load8_s:before { u = arg0 + data_size + addr + align + memory + effective_addr; l = offset; b = is_write || trap; }
wasm:opcode:i64.load:after { j = res0; }
wasm:opcode:f32.store:before { f = arg0; u = arg1 + data_size + addr + align + memory + effective_addr; l = offset; b = is_write; }
wasm:opcode:i32.atomic.load:before { u = arg0 + addr + effective_addr; l = offset; }
wasm:opcode:i64.atomic.rmw.add:before { u = arg1 + addr + effective_addr; }
wasm:opcode:i32.atomic.rmw.cmpxchg|memory.atomic.wait32:before { u = arg2 + addr + effective_addr; }
wasm:opcode:memory.size:after { u = imm0; i = res0; }
wasm:opcode:memory.grow:after { u = imm0 + arg0; i = res0; b = failed; }
wasm:opcode:memory.init:before { u = imm0 + imm1; i = arg0 + arg1 + arg2; }
wasm:opcode:memory.copy|memory.fill:before { u = imm0; i = arg0 + arg1 + arg2; }
wasm:opcode:table.copy|table.init:before { u = imm0 + imm1; i = arg0 + arg1 + arg2; }
wasm:opcode:i32.const:before { i = imm0; }
wasm:opcode:i64.const:before { j = imm0; }
wasm:opcode:f32.const:before { f = imm0; }
wasm:opcode:f64.const:before { d = imm0; }
wasm:opcode:struct.new|array.new_fixed:before { u = imm0 + tid; }
wasm:opcode:struct.get|struct.get_s|struct.get_u|struct.set:before { u = tid + field_idx + imm0 + imm1; }
wasm:opcode:array.new:before { u = arg0 + tid; }
wasm:opcode:array.new_data|array.new_elem:before { i = arg0 + arg1; u = tid; }
wasm:opcode:array.copy:before { u = imm0 + imm1; }
wasm:opcode:nop|return|unreachable|end|else|try_table|ref.null|atomic.fence:before { u = pc; }
