// app: long_name.wat
wasm:func:entry / fname.len() == 300 / { report var n: i32; n++; }
