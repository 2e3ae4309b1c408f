//! The features of each target, and the diagnostics about the others.

use whamm::{Options, Source};

fn monitor(text: &str) -> Result<Vec<u8>, String> {
    whamm::compile_monitor(&[Source::new("x.mm", text)], &[], &Options::default())
        .map(|o| o.module)
        .map_err(|e| e.to_string())
}

/// Imports and exports of a module, as `module.name` and `name`.
fn interface(bytes: &[u8]) -> (Vec<String>, Vec<String>) {
    let (mut imports, mut exports) = (Vec::new(), Vec::new());
    for payload in wasmparser::Parser::new(0).parse_all(bytes) {
        match payload.expect("it is valid") {
            wasmparser::Payload::ImportSection(s) => {
                imports.extend(
                    s.into_imports()
                        .map(|i| i.expect("it is valid"))
                        .map(|i| format!("{}.{}", i.module, i.name)),
                );
            }
            wasmparser::Payload::ExportSection(s) => {
                exports.extend(s.into_iter().map(|e| e.expect("it is valid").name.to_string()));
            }
            _ => {}
        }
    }
    (imports, exports)
}

fn exports(text: &str) -> Vec<String> {
    let bytes = monitor(text).unwrap_or_else(|e| panic!("{e}"));
    interface(&bytes).1.into_iter().filter(|e| e.starts_with("wasm:")).collect()
}

#[test]
fn names_of_exports_are_as_engines_read_them() {
    assert_eq!(exports("var g: i32; wasm:func:entry { g++; }"), ["wasm:func:entry  ()"]);
    assert_eq!(
        exports("var g: i32; wasm:opcode:call(arg0: i32):before / arg0 == 3 / { g++; }"),
        ["wasm:opcode:call  (arg0)"]
    );
    assert_eq!(
        exports("var g: u32; wasm:opcode:i32.store:before { g = effective_addr; }"),
        ["wasm:opcode:i32.store  (offset, arg1)"]
    );
    assert_eq!(
        exports("var g: u32; wasm:block:end { g = instr_count; }"),
        ["wasm:block:end  (instr_count)"]
    );
    assert_eq!(
        exports("var g: bool; wasm:opcode:end:before { g = at_func_end; }"),
        ["wasm:opcode:end  (at_func_end)"]
    );
    let site = exports("wasm:opcode:*:before { report var n: i32; n++; }");
    assert!(
        site.len() == 2 && site[0].starts_with("wasm:opcode:*  ($") && site[1] == "wasm:exit",
        "{site:?}"
    );
    let known =
        exports("var g: i32; wasm:opcode:call:before / fid == 2 && fname == \"f\" / { g++; }");
    assert!(
        known.len() == 1
            && known[0].starts_with("wasm:opcode:call / $")
            && known[0].ends_with("(fid, fname) / ()"),
        "{known:?}"
    );
}

#[test]
fn two_probes_of_one_shape_are_one_export() {
    assert_eq!(
        exports("var g: i32; wasm:opcode:call:before { g++; } wasm:opcode:call:before { g += 2; }"),
        ["wasm:opcode:call  ()"]
    );
}

#[test]
fn a_mixed_predicate_is_split_into_exports() {
    let found = exports("var g: i32; wasm:opcode:br_if:before / fid == 1 || arg0 == 0 / { g++; }");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.iter().any(|e| e.ends_with("/ (arg0)")) && found.iter().any(|e| e.ends_with("/ ()")),
        "{found:?}"
    );
    assert!(
        exports("var g: i32; wasm:opcode:nop:before / opname == \"call\" / { g++; }").is_empty(),
        "what is never true leaves nothing"
    );
}

#[test]
fn immediates_of_tables_are_numbered_as_engines_do() {
    assert_eq!(
        exports("var g: u32; wasm:opcode:br_table:before { g = imm0; }"),
        ["wasm:opcode:br_table  (imm1)"]
    );
    assert_eq!(
        exports("var g: u32; wasm:opcode:br_if:before { g = imm0; }"),
        ["wasm:opcode:br_if  (imm0)"]
    );
    let lane = "var g: u32; wasm:opcode:v128.load8_lane:before { g = imm0 + align; }";
    assert_eq!(exports(lane), ["wasm:opcode:v128.load8_lane  (imm3, imm0)"]);
}

#[test]
fn only_what_needs_our_engine_asks_for_it() {
    let marked = |text: &str| {
        interface(&monitor(text).unwrap_or_else(|e| panic!("{e}")))
            .0
            .contains(&"wasm-aot:ext.v1".to_string())
    };
    assert!(!marked("report var g: u32; wasm:opcode:*load*:before { g = align + memory; }"));
    assert!(!marked("var g: u32; wasm:opcode:call:before { g = opidx; }"));
    assert!(!marked("wasm:opcode:br_table:before { report var m: map<u32, u32>; m[target]++; }"));
    for text in [
        "var g: i32; wasm:opcode:call(res0: i32):after { g = res0; }",
        "var g: u32; wasm:opcode:call:before { g = line; }",
        "wasm:opcode:call:before { report var of: str = file; }",
        "frame var f: i32; wasm:func:entry { f++; }",
        "var g: i32; wasm:func:unwind { g++; }",
        "var g: i32; wasm:opcode:loop:entry { g++; }",
        "var g: bool; wasm:opcode:i32.load:before / trap / { g = true; }",
    ] {
        assert!(marked(text), "{text}");
    }
}

#[test]
fn what_happens_in_the_engine_is_heard_by_monitors_only() {
    let text = "report var grown: map<u32, u64>; report var traps: u32;
        engine:memory_grown / after > before / { grown[memory] += after - before; }
        engine:trap { traps++; println(\"{} in {} at {}\", code, fid, pc); }
        engine:thread_* { report shared var threads: u32; threads++; }
        wasm:opcode:i32.add:before { traps += 0; }";
    let bytes = monitor(text).unwrap_or_else(|e| panic!("{e}"));
    let (imports, mut exports) = interface(&bytes);
    exports.retain(|e| e.starts_with("engine:"));
    exports.sort();
    let wanted = [
        "engine:memory_grown  (memory, before, after)",
        "engine:thread_end  ()",
        "engine:thread_start  ()",
        "engine:trap  (fid, code, pc)",
    ];
    assert_eq!(exports, wanted);
    assert!(imports.contains(&"wasm-aot:ext.v1".to_string()), "{imports:?}");
    let script = Source::new("x.mm", "engine:trap { println(code); }");
    let said = whamm::instrument(&[script], &[], b"(module (func nop))", &Options::default())
        .expect_err("it hears nothing");
    assert!(said.to_string().contains("`--wei`"), "{said}");
    for (text, message) in [
        ("engine:tarp { println(1); }", "did you mean `trap`?"),
        ("engine:trap:before { println(1); }", "no more parts"),
        ("engine:trap { println(opname); }", "`opname`"),
    ] {
        let said = monitor(text).expect_err(text);
        assert!(said.contains(message), "{said}");
    }
}

#[test]
fn what_a_monitor_cannot_do_is_an_error_that_names_the_target_that_can() {
    for text in [
        "wasm:opcode:call:alt { alt_call_by_id(1); report var n: u32; n++; }",
        "wasm:opcode:i32.add:before { arg0 = 1; }",
        "wasm:opcode:if:entry / arg0 == 1 / { report var n: u32; n++; }",
        "wasm:opcode:block(arg0: i32):exit { report var n: i32; n = arg0; }",
        "wasm:opcode:table.get:before / trap / { report var n: u32; n++; }",
    ] {
        let said = monitor(text).expect_err(text);
        assert!(said.contains("error[WeiError]") && said.contains("rewriting target"), "{said}");
    }
}

#[test]
fn what_a_predicate_excludes_is_no_error() {
    for (text, name) in [
        ("wasm:opcode:*:alt / opname == \"i32.eqz\" / { return 1; }", "wasm:opcode:i32.eqz:alt"),
        ("wasm:opcode:*:before / opname == \"i32.div_s\" && trap / { println(pc); }", "i32.div_s"),
    ] {
        let names = exports(text);
        assert!(names.len() == 1 && names[0].contains(name), "{names:?}");
    }
    let said = monitor("wasm:opcode:*:before / opname == \"table.get\" && trap / { println(pc); }");
    assert!(said.expect_err("it is left over").contains("whether `table.get` is going to trap"));
}

#[test]
fn a_function_is_called_instead_that_variables_with_known_values_name() {
    let program = br#"(module (func $f (call $g)) (func $g) (func $h))"#;
    let rewritten = |body: &str| {
        let text = format!("wasm:opcode:call:alt / imm0 == 1 / {{ {body} }}");
        let script = Source::new("x.mm", text);
        whamm::instrument(&[script], &[], program, &Options::default())
            .map(|output| output.diagnostics.to_string())
            .map_err(|said| said.to_string())
    };
    for body in [
        "alt_call_by_id(imm0);",
        "alt_call_by_id(fid + 2);",
        "alt_call_by_name(target_fn_name);",
        "var k: i32 = 2; alt_call_by_id(k);",
        "var k: u32; k = imm0; var l: i32 = k as i32 + 1; alt_call_by_id(l);",
        "var name: str = \"h\"; alt_call_by_name(name);",
        "var k: i32 = 1; if (imm0 == 1) { k = 2; } else { k = 2; } alt_call_by_id(k);",
    ] {
        assert_eq!(rewritten(body), Ok(String::new()), "{body}");
    }
    for body in [
        "report var n: i32; n++; alt_call_by_id(n);",
        "report var n: i32; n++; var k: i32 = 1; if (n > 2) { k = 2; } alt_call_by_id(k);",
        "report var n: i32; n++; var k: i32 = 1; for i in 0..n { k = 2; } alt_call_by_id(k);",
        "report var n: i32; var k: i32 = n; alt_call_by_id(k);",
    ] {
        let said = rewritten(body).expect_err(body);
        assert!(said.contains("must be known while compiling"), "{said}");
    }
    let names = exports("wasm:opcode:call:alt { var k: i32 = 2; alt_call_by_id(k); }");
    assert!(names.len() == 1 && names[0].ends_with(", 2}"), "{names:?}");
}

#[test]
fn values_that_scripts_have_no_type_for_are_given_by_functions() {
    let program = br#"(module (func $f (result v128) (v128.const i64x2 1 2))
        (func $g (result v128) (v128.const i64x2 3 4)) (func (result funcref) (ref.func $f)) (elem declare func $f))"#;
    let rewritten = |rule: &str, body: &str| {
        let script = Source::new("x.mm", format!("{rule} {{ {body} }}"));
        whamm::instrument(&[script], &[], program, &Options::default())
            .map(|_| ())
            .map_err(|said| said.to_string())
    };
    let vector = "wasm:opcode:v128.const:alt / fname == \"f\" /";
    for rule in [vector, "wasm:opcode:ref.func:alt"] {
        let said = rewritten(rule, "return 1;").expect_err(rule);
        assert!(said.contains("= help: call a function that gives it"), "{said}");
    }
    assert_eq!(rewritten(vector, "alt_call_by_name(\"g\");"), Ok(()));
}

#[test]
fn what_a_program_cannot_do_is_an_error_that_names_the_target_that_can() {
    let script = Source::new("x.mm", "var g: i32; wasm:opcode:nop:before { g = probe_id; }");
    let said = whamm::instrument(&[script], &[], b"(module (func nop))", &Options::default())
        .expect_err("it has none")
        .to_string();
    assert!(
        said.contains("`probe_id` is not known here") && said.contains("engine target"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_kept_exact_is_refused_by_name() {
    let refused = |program: &str| {
        let script = Source::new("x.mm", "report var n: i32; wasm:opcode:*:before { n++; }");
        whamm::instrument(&[script], &[], program.as_bytes(), &Options::default())
            .expect_err(program)
            .to_string()
    };
    assert!(refused("(component)").contains("component"));
    assert!(refused("not a module").contains("not a module"));
}

#[test]
fn threads_are_warned_of_and_lend_no_memory() {
    let script = Source::new("x.mm", "report var n: i32; wasm:opcode:*:before { n++; }");
    let program = br#"(module (memory (export "memory") 1 1 shared) (func (export "_start") nop))"#;
    let output = whamm::instrument(&[script], &[], program, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(output.diagnostics.to_string().contains("shares a memory with threads"));
    let (imports, exports) = interface(&output.module);
    assert!(
        imports.is_empty() && exports.contains(&"whamm:report".to_string()),
        "{imports:?} {exports:?}"
    );
}

#[test]
fn scripts_have_their_own_names_and_rows() {
    let scripts = [1, 2].map(|n| {
        Source::new(
            format!("{n}.mm"),
            format!("report var n: i32; fn f() -> i32 {{ return {n}; }} wasm:opcode:call:before {{ n += f(); }}"),
        )
    });
    let program = b"(module (func $f) (func (export \"main\") call $f call $f))";
    let output = whamm::instrument(&scripts, &[], program, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(output.diagnostics.is_empty());
    let again = whamm::instrument(&scripts, &[], &output.module, &Options::default())
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(
        interface(&again.module).1.contains(&"whamm:report:2".to_string()),
        "an instrumented program can be instrumented"
    );
}

#[test]
fn what_is_imported_of_the_core_library_is_what_is_used() {
    let options = Options { link: whamm::Link::Imported, ..Options::default() };
    let of = |text: &str| {
        let script = [Source::new("x.mm", text)];
        let program = br#"(module (func $f) (func (export "main") i32.const 1 drop call $f))"#;
        let output =
            whamm::instrument(&script, &[], program, &options).unwrap_or_else(|e| panic!("{e}"));
        let monitor =
            whamm::compile_monitor(&script, &[], &options).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            interface(&output.module).0,
            interface(&monitor.module).0,
            "both targets use the same of it"
        );
        interface(&output.module)
            .0
            .iter()
            .map(|i| i.replace("whamm_core.", ""))
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(of("var n: i32; wasm:opcode:call:before { n++; }"), "");
    assert_eq!(
        of("report var n: i32; wasm:opcode:call:before { n++; }"),
        "mem_alloc mem_free puts memory"
    );
    assert_eq!(
        of("wasm:opcode:call:before { print(pc as u8); }"),
        "mem_alloc mem_free puts putu8 memory"
    );
    assert_eq!(
        of("report var m: map<u32, u32>; wasm:opcode:call:before { m[pc]++; }"),
        "create_i32_i32_with_id get_i32_i32 insert_i32_i32 mem_alloc mem_free print_map puts memory"
    );
    // Operations that the library lacks stay with the run-time support.
    for kept in [
        "m: map<u64, u32>; wasm:opcode:call:before { m[1]++; }",
        "m: map<u32, u32>; wasm:begin { for k in m { } }",
    ] {
        assert_eq!(of(&format!("report var {kept}")), "mem_alloc mem_free puts memory", "{kept}");
    }
}

#[test]
fn what_a_library_cannot_offer_is_said_by_name() {
    let said = |text: &str, library: &str| {
        let library =
            whamm::LibraryFile { name: "l".into(), module: "l".into(), bytes: library.into() };
        whamm::check_scripts(
            &[Source::new("x.mm", format!("use l; wasm:opcode:call:before {{ {text} }}"))],
            &[library],
        )
        .to_string()
    };
    let library = r#"(module (func (export "two") (result i32 i32) i32.const 1 i32.const 2) (func (export "take") (param v128))
        (func (export "one") (param i64) (result i32) i32.const 1))"#;
    assert!(
        said("l.two();", library)
            .contains("`l.two` takes or gives what the language has no type for")
    );
    assert!(said("l.take();", library).contains("`l.take` takes or gives"));
    assert!(said("l.on(1);", library).contains("did you mean `one`?"));
    assert!(said("l.one(1, 2);", library).contains("takes 1 argument, not 2"));
    assert!(said("var x: i64 = l.one(1);", library).contains("expected i64, found i32"));
    assert!(said("var x: i32 = memid(l) as i32;", library).contains("exports no memory"));
    assert!(
        said("@static l.one(arg0);", library).contains("static library call")
            || said("@static l.one(arg0);", library).contains("bind it")
    );
    assert!(said("l.one(1);", "(module (func").contains("the library `l` is not a Wasm module"));
    assert_eq!(said("l.one(1);", library), "", "a result that nobody wants is no mistake");
}

#[test]
fn operands_of_two_types_are_two_exports() {
    let found = exports(
        "var a: i32; var b: i64; wasm:opcode:call(arg0: i32):before { a = arg0; } wasm:opcode:call(arg0: i64):before { b = arg0; }",
    );
    assert_eq!(found, ["wasm:opcode:call  (arg0)", "wasm:opcode:call  (arg0 )"]);
}

#[test]
fn monitors_report_where_they_are_told_to() {
    let imports = |destination| {
        let options = Options { destination, ..Options::default() };
        let script = Source::new("x.mm", "report var n: i32; wasm:opcode:call:before { n++; }");
        interface(
            &whamm::compile_monitor(&[script], &[], &options)
                .unwrap_or_else(|e| panic!("{e}"))
                .module,
        )
        .0
        .join(" ")
        .replace("wasi_snapshot_preview1.", "")
    };
    assert_eq!(imports(whamm::Destination::Auto), "fd_write");
    assert_eq!(
        imports(whamm::Destination::File("out.csv".into())),
        "fd_write fd_prestat_dir_name fd_prestat_get path_open"
    );
    assert_eq!(
        imports(whamm::Destination::Environment),
        "fd_write environ_get environ_sizes_get fd_prestat_dir_name fd_prestat_get path_open"
    );
}

#[test]
fn our_own_memory_has_the_number_behind_the_program_s() {
    let script = |memory: u32| {
        let text = format!(
            "use whamm_core; var to: u32; wasm:opcode:nop:before {{ var s: str = \"hello\"; \
             memcpy({memory}, s.addr(), memid(whamm_core), to, s.len()); }}"
        );
        let none = whamm::instrument(
            &[Source::new("s.mm", text)],
            &[],
            b"(module (func nop))",
            &Options::default(),
        );
        none.map(|_| ()).map_err(|said| said.to_string())
    };
    assert_eq!(script(0), Ok(()));
    assert!(script(1).expect_err("there is none").contains("there is no memory 1"));
}

#[test]
fn a_memory_that_is_not_there_is_an_error() {
    for function in ["page_size", "active_data_start", "active_data_len", "mem_size"] {
        let text =
            format!("wasm:opcode:nop:before {{ report var n: u32; n = {function}(99) as u32; }}");
        let script = Source::new("s.mm", text.clone());
        let program = b"(module (memory 1) (func nop))";
        let said = whamm::instrument(&[script], &[], program, &Options::default());
        let said = said.map(|_| ()).expect_err(function).to_string();
        assert!(said.contains("there is no memory 99"), "{function}: {said}");
        // An engine finds out when the monitor is matched with a program.
        assert!(monitor(&text).is_ok(), "{function}");
    }
}

#[test]
fn monitors_reach_the_program_s_memories_through_the_engine() {
    let imported = |text: &str| {
        let bytes = monitor(text).unwrap_or_else(|e| panic!("{e}"));
        let ours = interface(&bytes).0;
        ours.into_iter().filter(|i| !i.starts_with("wasi")).collect::<Vec<_>>().join(" ")
    };
    let probe = |body: &str| format!("use whamm_core; wasm:opcode:memory.copy:before {{ {body} }}");
    for (body, wanted) in [
        // The monitor's own memory needs nothing of an engine.
        ("var s: str = \"a\"; memcpy(memid(whamm_core), s.addr(), memid(whamm_core), 8, 1);", ""),
        ("var n: u32 = mem_size(memid(whamm_core)) + page_size(memid(whamm_core));", ""),
        ("var n: u32 = mem_size(APP_MEMID);", "wasm-aot:ext.memory_size wasm-aot:ext.v1"),
        (
            "var n: u32 = mem_size(1);",
            "wasm-aot:ext.memory_size whamm:reflect.get_num_memories wasm-aot:ext.v1",
        ),
        (
            "write_str(APP_MEMID, 8, \"a\");",
            "wasm-aot:ext.memory_size wasm-aot:ext.memory_copy wasm-aot:ext.v1",
        ),
        ("dup_at(memid(whamm_core), 8);", "wasm-aot:ext.memory_copy wasm-aot:ext.v1"),
    ] {
        assert_eq!(imported(&probe(body)), wanted, "{body}");
    }
    let fill = "use whamm_core; wasm:opcode:memory.fill:before { dup_at(memid(whamm_core), 8); }";
    assert_eq!(imported(fill), "");
    assert_eq!(exports(fill)[0], "wasm:opcode:memory.fill  (arg0, arg1)");
}

#[test]
fn a_script_that_reads_the_program_s_memory_begins_when_that_exists() {
    let names = |text: &str| interface(&monitor(text).unwrap_or_else(|e| panic!("{e}"))).1;
    let begins = |text: &str| names(text).contains(&"engine:instantiated  ()".to_string());
    assert!(begins("var n: u32 = mem_size(APP_MEMID); wasm:opcode:nop:before { n++; }"));
    assert!(begins("wasm:begin { println(\"{}\", read_str(APP_MEMID, 0, 4)); }"));
    let call = "fn size() -> u32 { return mem_size(0); } wasm:begin { println(\"{}\", size()); }";
    assert!(begins(call));
    // What the program declares is known before.
    assert!(!begins("var n: u32 = page_size(APP_MEMID); wasm:opcode:nop:before { n++; }"));
    let both =
        "wasm:begin { println(\"{}\", mem_size(0)); } engine:instantiated { println(\"b\"); }";
    assert_eq!(names(both).iter().filter(|name| name.starts_with("engine:")).count(), 1);
}

#[test]
fn what_a_site_s_variable_begins_with_cannot_come_from_the_program_s_memory() {
    let said = |text: &str| monitor(text).map(|_| ()).expect_err(text);
    let read = "wasm:opcode:nop:before { report var s: str = read_str(APP_MEMID, 0, 4); }";
    assert!(said(read).contains("do not exist yet when a site is matched"), "{}", said(read));
    let late = "var n: u32 = mem_size(APP_MEMID);
        wasm:opcode:nop:before { report var m: u32 = n; }";
    assert!(said(late).contains("gets its value from the program's memory"), "{}", said(late));
    assert!(monitor("wasm:opcode:nop:before { report var n: u32 = mem_size(0); }").is_ok());
}

#[test]
fn the_end_of_a_function_has_two_spellings() {
    let names = |event: &str| exports(&format!("{event} {{ report var n: u32; n++; }}"));
    assert_eq!(names("wasm:function:exit"), names("wasm:func:exit"));
    assert!(names("wasm:func:exit")[0].starts_with("wasm:func:exit"));
}

/// An instance of a program that keeps its report for the host.
struct Keeping {
    store: wasmi::Store<()>,
    instance: wasmi::Instance,
}

impl Keeping {
    fn new(program: &str, script: &str) -> Self {
        let scripts = [Source::new("x.mm", script)];
        let output = whamm::instrument(&scripts, &[], program.as_bytes(), &Options::default())
            .unwrap_or_else(|e| panic!("{e}"));
        let engine = wasmi::Engine::default();
        let module = wasmi::Module::new(&engine, &output.module).expect("valid");
        let mut store = wasmi::Store::new(&engine, ());
        let instance = wasmi::Linker::new(&engine).instantiate_and_start(&mut store, &module);
        Self { instance: instance.expect("it imports nothing"), store }
    }

    fn call(&mut self, name: &str) {
        let function = self.instance.get_typed_func::<(), ()>(&self.store, name);
        function.expect("exported").call(&mut self.store, ()).expect("no trap");
    }

    /// What the host fetches.
    fn fetch(&mut self) -> String {
        let report = self.instance.get_typed_func::<(), (i32, i32)>(&self.store, "whamm:report");
        let (at, len) = report.expect("exported").call(&mut self.store, ()).expect("no trap");
        let memory = self.instance.get_memory(&self.store, "whamm:memory").expect("exported");
        String::from_utf8_lossy(&memory.data(&self.store)[at as usize..][..len as usize]).into()
    }
}

const COUNTED: &str = r#"(module (func $work nop) (func (export "work") (call $work) (nop))
    ENTRY (func (export "other") (call $work)))"#;

/// The values of a variable in the reports of a text.
fn values<'a>(text: &'a str, variable: &str) -> Vec<&'a str> {
    let rows = text.lines().filter(|row| row.contains(&format!(", {variable}, ")));
    rows.filter_map(|row| row.rsplit(", ").next()).collect()
}

#[test]
fn the_host_fetches_the_report_as_it_is_then() {
    let script = "report var calls: u32; report var ends: u32;
        wasm:opcode:call:before { report var here: u32; calls++; here++; } wasm:end { ends++; }";
    for entry in ["", "(func (export \"main\") (call $work))"] {
        let mut kept = Keeping::new(&COUNTED.replace("ENTRY", entry), script);
        kept.call(if entry.is_empty() { "work" } else { "main" });
        for calls in ["1", "2", "3"] {
            let report = kept.fetch();
            assert_eq!(values(&report, "calls"), [calls], "{entry}: {report}");
            assert_eq!(values(&report, "ends"), ["1"], "{entry}: {report}");
            assert_eq!(kept.fetch(), report, "{entry}");
            kept.call("other");
        }
        kept.call("whamm:flush");
        let report = kept.fetch();
        assert_eq!((values(&report, "calls"), values(&report, "ends")), (vec!["4"], vec!["2"]));
    }
}

#[test]
fn what_a_script_prints_itself_is_kept_once() {
    let script = "var calls: u32; wasm:opcode:call:before { calls++; print(\"call\\n\"); }
        wasm:report { print(\"calls {}\\n\", calls); calls = 0; }";
    let mut kept = Keeping::new(&COUNTED.replace("ENTRY", ""), script);
    kept.call("work");
    assert_eq!(kept.fetch(), "call\ncalls 1\n");
    kept.call("other");
    // Its own report is not written again unless the host asks for it.
    assert_eq!(kept.fetch(), "call\ncalls 1\ncall\n");
    kept.call("whamm:flush");
    assert_eq!(kept.fetch(), "call\ncalls 1\ncall\ncalls 1\n");
    let script = "report var calls: u32; wasm:opcode:call:before { calls++; print(\"call\\n\"); }";
    let mut kept = Keeping::new(&COUNTED.replace("ENTRY", ""), script);
    kept.call("work");
    let first = kept.fetch();
    assert!(first.starts_with("call\n") && values(&first, "calls") == ["1"], "{first}");
    kept.call("other");
    let second = kept.fetch();
    assert!(second.starts_with(&format!("{first}call\n")), "{second}");
    assert_eq!(values(&second, "calls"), ["1", "2"]);
}
