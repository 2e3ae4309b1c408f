// app: control.wat
wasm:opcode:call_indirect:before {
    report var one: i32;
    one = resolved_fid;
    report var same: i32;
    same = resolve_funcref(target_funcref, table_entry_idx);
}
