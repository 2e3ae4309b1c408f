//! Golden machine code: compiles the modules in `disas/` for one processor, and compares the code
//! with the listing below each. `BLESS=1` writes the listings anew; the difference is reviewed.
//!
//! In a file, lines that begin with `;;!` specify how it is compiled, and lines that begin with
//! `;;|` contain the script of a monitor. The listings contain nothing that depends on the machine:
//! addresses are replaced by the names of what is there.

use crate::monitor::{Choices, MonitorSet};
use crate::observer::{self, Observer, ProbeCalls, Program, Switches};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Formatter, Instruction, IntelFormatter, Mnemonic,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;
use wasm_aot_engine::AsContextMut;
use wasm_aot_engine::Config;
use wasm_aot_engine::Engine;
use wasm_aot_engine::Error;
use wasm_aot_engine::Linker;
use wasm_aot_engine::Module;
use wasm_aot_engine::Store;
use wasm_aot_engine::Trap;
use wasm_aot_engine::instrument::compile::{
    self, Budget, Callee, Cpu, Detours, Draft, Options, OsrLoops, Plan, Recompilation, Sites, Span,
    Target, Text, Wanted,
};
use wasm_aot_engine::instrument::module::ModuleInfo;
use wasm_aot_engine::instrument::offsets::{ASIDE, NOTHING, Offsets};

/// Where the expected listing begins.
const EXPECTED: &str = ";; ---\n";

/// How a file is compiled.
struct GoldenRequest<'a> {
    /// The words of the request, in their order.
    words: Vec<&'a str>,
    script: String,
    module: Vec<u8>,
}

impl<'a> GoldenRequest<'a> {
    fn read(text: &'a str) -> Self {
        let lines = |mark| text.lines().filter_map(move |line| line.strip_prefix(mark));
        let words: Vec<&str> = lines(";;!").flat_map(str::split_whitespace).collect();
        assert!(words.iter().all(|word| Self::WORDS.contains(word)), "{words:?}: some are unknown");
        let script = lines(";;|").map(|line| line.to_owned() + "\n").collect();
        Self {
            words,
            script,
            module: wat::parse_str(text).unwrap_or_else(|error| panic!("{error}")),
        }
    }

    /// The words that files may use.
    const WORDS: [&'static str; 7] =
        ["all-sites", "budget", "call-targets", "counts", "coverage", "entries", "frames"];

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn options(&self) -> Options {
        Options {
            cpu: Cpu::V3,
            counts: self.has("counts"),
            targets: self.has("call-targets"),
            frames: self.has("frames"),
            budget: if self.has("budget") { Budget::Pays } else { Budget::default() },
            sites: if self.has("all-sites") { Sites::ALL } else { Sites::default() },
            ..Options::default()
        }
    }

    /// Returns the machine code, as text.
    fn made(&self) -> String {
        let target = Target::new(self.options()).expect("code generation knows the processor");
        if !self.script.is_empty() {
            return self.observed().unwrap_or_else(|error| panic!("{error}"));
        }
        let plan = match self.has("coverage") {
            true => {
                let choices = Choices::new(["coverage"]).expect("there is one");
                let engine =
                    Engine::new(Config::new().sites(Sites::NONE).cpu(Cpu::V3)).expect("an engine");
                let monitors = MonitorSet::new(choices).expect("it is ready");
                monitors.draft(&engine, &self.module, Draft::default()).expect("a module").finish()
            }
            false => Plan::default(),
        };
        if self.has("entries") {
            return self.entries(&target, &plan);
        }
        let made = compile::compile(&self.module, &target, &plan)
            .unwrap_or_else(|error| panic!("{error}"));
        let names = made
            .info
            .bodies
            .iter()
            .enumerate()
            .map(|(defined, _)| name(&made.info, defined))
            .collect();
        Listing::of(&made.text, operators(&self.module, &made.info), names, &[]).written()
    }

    /// A variant of the functions that threads enter by OSR: each entered at its beginning, and at
    /// its loops.
    fn entries(&self, target: &Target, plan: &Plan) -> String {
        let known = OnceLock::<OsrLoops>::new();
        let detours = Detours::default();
        let again = Recompilation::new(&self.module, target, [plan; 2], [0, 0], &known, &detours)
            .expect("a module");
        let info = compile::compile(&self.module, target, plan).expect("a module").info;
        let osr_loops = known.get().expect("it was looked for");
        let wanted: Vec<Wanted> = (0..info.bodies.len())
            .flat_map(|defined| Wanted::of(osr_loops, defined, true, true))
            .collect();
        let chunk = again.compile_chunk(&self.module, osr_loops, &wanted).expect("a module");
        let title = |part: &Wanted| match part.osr_entry {
            Some((index, _)) => {
                format!("{}, entered in loop {index}", name(&info, part.function))
            }
            None => name(&info, part.function),
        };
        let names = chunk.parts.iter().map(title).collect();
        Listing::of(&chunk.text, operators(&self.module, &info), names, &chunk.elsewhere).written()
    }

    /// The program with a script's monitor in it.
    fn observed(&self) -> Result<String, Box<dyn std::error::Error>> {
        let engine = Engine::new(Config::new().cpu(Cpu::V3))?;
        let mut store = Store::new(&engine, ());
        let program = Program::new(&engine, &self.module)?;
        let script = whamm::Source::new("golden.mm", self.script.clone());
        let monitor = whamm::compile_monitor(&[script], &[], &whamm::Options::default())?.module;
        let (mut linker, switches) = (Linker::new(&engine), Switches::default());
        observer::add_to_linker(&mut linker, &program, &switches)?;
        let module = Module::new(&engine, &monitor)?;
        linker.unknown_imports_as_traps(&module)?;
        let observer = Observer::new(&mut store, &linker, "golden", &module, &switches)?;
        let instance = observer.instance();
        let observed = observer::Observation::new(
            &mut store,
            vec![observer],
            &program,
            ProbeCalls::Inlined,
            None,
        )?;
        let inner = &observed.module().inner();
        let mut context = store.as_context_mut();
        let core = context.core();
        let (vmctx, memories) = instance.extents(core).expect("of this store");
        let mut places = vec![
            ("the monitor's vmctx", vmctx),
            ("the monitor's code", module.inner().code.range()),
            ("the hooks", inner.code.hooks()),
        ];
        places.extend(memories.into_iter().map(|memory| ("the monitor's memory", memory)));
        let tables = &inner.code.tables;
        let names = inner
            .info
            .bodies
            .iter()
            .enumerate()
            .map(|(defined, _)| name(&inner.info, defined))
            .collect();
        let listing = Listing {
            code: inner.code.bytes(),
            functions: &tables.functions,
            names,
            prefix: inner.options.sites.prefix(),
            wasm: operators(&inner.bytes, &inner.info),
            addresses: &tables.addresses,
            traps: &tables.traps,
            calls: BTreeMap::new(),
            one_shot_sites: Vec::new(),
            osr_exits: tables
                .osr_exits
                .iter()
                .map(|osr_exit| (osr_exit.at, osr_exit.number, osr_exit.values()))
                .collect(),
            patchable_sites: tables
                .patchable_sites
                .iter()
                .map(|site| (site.at, site.offset))
                .collect(),
            places,
        };
        Ok(listing.written())
    }
}

/// The name of a function.
fn name(info: &ModuleInfo, defined: usize) -> String {
    let index = info.imported.functions + defined as u32;
    info.function_name(index).map_or_else(|| format!("function {index}"), |name| format!("${name}"))
}

/// The operators of a module, as text, by their offsets.
fn operators(bytes: &[u8], info: &ModuleInfo) -> BTreeMap<u32, String> {
    let of = |body: &Range<u32>| {
        wasm_aot_engine::inspection::operators(
            &bytes[body.start as usize..body.end as usize],
            body.start,
        )
    };
    info.bodies.iter().flat_map(of).collect()
}

/// Machine code, with the data that its listing shows.
struct Listing<'a> {
    code: &'a [u8],
    functions: &'a [Span],
    names: Vec<String>,
    /// How many bytes precede a function.
    prefix: u32,
    wasm: BTreeMap<u32, String>,
    addresses: &'a Offsets,
    traps: &'a Offsets,
    /// The callees of calls out of the function, by the offsets of their displacements.
    calls: BTreeMap<u32, Callee>,
    one_shot_sites: Vec<u32>,
    osr_exits: Vec<(u32, u32, [u8; 2])>,
    patchable_sites: Vec<(u32, u32)>,
    /// Names of address ranges that code refers to.
    places: Vec<(&'static str, Range<usize>)>,
}

impl<'a> Listing<'a> {
    fn of(
        text: &'a Text,
        wasm: BTreeMap<u32, String>,
        names: Vec<String>,
        elsewhere: &[(u32, Callee)],
    ) -> Self {
        Self {
            code: &text.code,
            functions: &text.functions,
            names,
            prefix: Sites::default().prefix(),
            wasm,
            addresses: &text.addresses,
            traps: &text.traps,
            calls: elsewhere.iter().copied().collect(),
            one_shot_sites: text.one_shot_sites.iter().map(|site| site.at).collect(),
            osr_exits: text
                .osr_exits
                .iter()
                .map(|osr_exit| (osr_exit.at, osr_exit.number, osr_exit.values()))
                .collect(),
            patchable_sites: text
                .patchable_sites
                .iter()
                .map(|site| (site.at, site.offset))
                .collect(),
            places: Vec::new(),
        }
    }

    fn written(&self) -> String {
        let mut out = String::new();
        for (span, name) in self.functions.iter().zip(&self.names) {
            let _ = writeln!(out, "{name}: {} bytes", span.end - span.start);
            self.function(span, &mut out);
        }
        out
    }

    fn function(&self, span: &Span, out: &mut String) {
        let has_prefix = self.prefix > 0
            && !self.code[..span.start as usize].ends_with(&[0xCC; 5])
            && span.start >= self.prefix;
        let from = span.start - if has_prefix { self.prefix } else { 0 };
        let code = &self.code[from as usize..span.end as usize];
        let mut last = None;
        for instruction in Decoder::with_ip(64, code, from.into(), DecoderOptions::NONE).into_iter()
        {
            let at = instruction.ip() as u32;
            let wasm = self
                .addresses
                .at_or_before(at)
                .map(|entry| entry.number)
                .filter(|number| *number != NOTHING);
            if at >= span.start && wasm != last {
                last = wasm;
                if let Some(wasm) = wasm {
                    let text = self.wasm.get(&(wasm & !ASIDE)).map_or("", String::as_str);
                    let aside = if wasm & ASIDE != 0 { " (the monitor's)" } else { "" };
                    let _ = writeln!(out, "  @{:x} {text}{aside}", wasm & !ASIDE);
                }
            }
            let distance = i64::from(at) - i64::from(span.start);
            let sign = if distance < 0 { "-" } else { " " };
            let text = self.instruction(&instruction, span);
            let _ = writeln!(
                out,
                "    {sign}{:04x}  {text}{}",
                distance.unsigned_abs(),
                self.remarks(at, instruction.len() as u32)
            );
        }
    }

    fn instruction(&self, instruction: &Instruction, span: &Span) -> String {
        let mut text = String::new();
        let mut formatter = IntelFormatter::new();
        formatter.options_mut().set_uppercase_hex(false);
        formatter.options_mut().set_hex_prefix("0x");
        formatter.options_mut().set_hex_suffix("");
        let is_direct = matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        if is_direct && instruction.near_branch_target() != 0 {
            let mut mnemonic = String::new();
            formatter.format_mnemonic(instruction, &mut mnemonic);
            return format!("{mnemonic} {}", self.target(instruction, span));
        }
        formatter.format(instruction, &mut text);
        if instruction.code() == Code::Mov_r64_imm64 {
            let address = instruction.immediate64() as usize;
            let found = self.places.iter().find(|(_, range)| range.contains(&address));
            let (place, range) =
                found.unwrap_or_else(|| panic!("nothing is known to be at {address:#x}"));
            let register = text.split(',').next().unwrap_or_default();
            // It does not matter which function of a monitor it is, and its distance may change.
            return format!("{register},{place} + {:#x}", address - range.start);
        }
        text
    }

    /// The target of a branch or a call.
    fn target(&self, instruction: &Instruction, span: &Span) -> String {
        let (at, to) = (instruction.next_ip() as u32 - 4, instruction.near_branch_target() as u32);
        if let Some(callee) = self.calls.get(&at) {
            return format!("elsewhere: {callee:?}");
        }
        if self.one_shot_sites.contains(&(instruction.ip() as u32)) {
            return "what notes".into();
        }
        if (span.start..span.end).contains(&to) && instruction.mnemonic() != Mnemonic::Call {
            return format!("{:04x}", to - span.start);
        }
        let function = self
            .functions
            .iter()
            .position(|other| other.start == to || other.start - self.prefix == to);
        function.map_or_else(|| "a trampoline".into(), |function| self.names[function].clone())
    }

    /// Remarks about an instruction.
    fn remarks(&self, at: u32, len: u32) -> String {
        let mut out = String::new();
        if let Some(number) = self.traps.at(at) {
            let trap = Trap::from_raw(number as u8)
                .map_or_else(|| number.to_string(), |trap| trap.to_string());
            let _ = write!(out, "   ; traps: {trap}");
        }
        for (_, number, [off, on]) in
            self.osr_exits.iter().filter(|(place, ..)| (at..at + len).contains(place))
        {
            let _ = write!(out, "   ; OSR at loop {number}: {off:02x} -> {on:02x}");
        }
        for (_, offset) in self.patchable_sites.iter().filter(|(place, _)| *place == at) {
            let _ = write!(out, "   ; site of @{offset:x}");
        }
        if self.one_shot_sites.contains(&at) {
            out.push_str("   ; on at first");
        }
        out
    }
}

/// The expected file.
fn expected(text: &str) -> String {
    let source = text.split(EXPECTED).next().unwrap_or(text);
    let mut all = source.trim_end().to_owned() + "\n" + EXPECTED;
    for line in GoldenRequest::read(source).made().lines() {
        let _ = writeln!(all, "{}", format!(";; {line}").trim_end());
    }
    all
}

#[test]
fn machine_code_is_what_is_kept() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("disas");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    assert!(!files.is_empty());
    let mut differing = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let made = expected(&text);
        if made == text {
            continue;
        }
        match std::env::var_os("BLESS") {
            Some(_) => std::fs::write(&file, made).expect("it can be written"),
            None => {
                let line = made.lines().zip(text.lines()).position(|(made, kept)| made != kept);
                differing.push(format!(
                    "{} from line {}",
                    file.display(),
                    line.map_or(0, |line| line + 1)
                ));
            }
        }
    }
    assert!(
        differing.is_empty(),
        "machine code has changed; BLESS=1 writes it anew: {}",
        differing.join(", ")
    );
}

#[test]
fn code_for_other_processors_is_compiled_and_executed_where_they_have_what_it_takes()
-> Result<(), Error> {
    for cpu in [Cpu::Native, Cpu::V2, Cpu::V3, Cpu::V4] {
        let engine = Engine::new(Config::new().cpu(cpu))?;
        let text =
            "(module (func (export \"f\") (param i64) (result i64) (i64.popcnt (local.get 0))))";
        let module = Module::new(&engine, text)?;
        let mut store = Store::new(&engine, ());
        match (Linker::new(&engine).instantiate(&mut store, &module), cpu.lacking()) {
            (Ok(instance), None) => {
                let count = instance.get_typed_func::<i64, i64>(&mut store, "f")?;
                assert_eq!(count.call(&mut store, 7)?, 3);
            }
            (Err(error), Some(lacking)) => assert!(error.to_string().contains(&lacking), "{error}"),
            (made, lacking) => panic!("{made:?}, and the processor lacks {lacking:?}"),
        }
    }
    Ok(())
}
