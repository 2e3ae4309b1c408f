//! Discovery, compared with an independent disassembler.

mod support;

use fastinst::Kind;
use fastinst::discovery::{Module, discover};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use support::*;

/// The calls and jumps to hooks that objdump finds: the address, and which hook.
fn disassembled(program: &Path) -> BTreeSet<(u64, bool)> {
    let output = run(Command::new("objdump").args(["-d", "--no-show-raw-insn"]).arg(program));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut found = BTreeSet::new();
    let mut in_stubs = false;
    for line in text.lines() {
        if line.starts_with("Disassembly of section") {
            in_stubs = line.contains(".plt");
        }
        let Some((address, rest)) = line.trim().split_once(":\t") else { continue };
        let is_transfer = ["call", "jmp", "addr32 call"].iter().any(|name| rest.starts_with(name));
        if is_transfer && !in_stubs && rest.contains("<__cyg_profile_func_") {
            found.insert((u64::from_str_radix(address, 16).unwrap(), rest.contains("func_enter")));
        }
    }
    found
}

#[test]
fn the_sites_are_those_that_a_disassembler_sees() {
    if !has("gcc") || !has("g++") || !has("objdump") {
        return;
    }
    let to = folder("discovery");
    let ways: [&[&str]; 9] = [
        &["-O0"],
        &["-O1"],
        &["-O2"],
        &["-O3"],
        &["-O2", "-no-pie", "-fno-pie"],
        &["-O2", "-fno-plt"],
        &["-O2", "-fcf-protection", "-Wl,-z,ibtplt"],
        &["-O2", "-flto"],
        &["-O2", "-shared", "-fPIC"],
    ];
    for source in ["calls.c", "objects.cc"] {
        for flags in ways {
            let program = compile(source, &to, &[flags, &["-finstrument-functions"]].concat());
            let found = discover(&Module::of_file(&program).unwrap()).unwrap();
            let sites: BTreeSet<(u64, bool)> = found
                .sites
                .iter()
                .map(|site| (site.address.get() as u64, site.kind == Kind::Enter))
                .collect();
            assert_eq!(sites, disassembled(&program), "{source} {flags:?}");
            assert!(
                sites.len() > 8 && found.refused.is_empty(),
                "{source} {flags:?}: {:?}",
                found.refused
            );
        }
    }
}

#[test]
fn damaged_files_are_refused_and_never_crash() {
    if !has("gcc") {
        return;
    }
    let to = folder("damaged");
    let program = compile("calls.c", &to, &["-O1", "-finstrument-functions"]);
    let whole = std::fs::read(&program).unwrap();
    let damaged = to.join("damaged.elf");
    arbtest::arbtest(|u| {
        let mut bytes = whole.clone();
        for _ in 0..u.int_in_range(1..=8)? {
            // Headers and tables are changed more often than code.
            let reach = if u.arbitrary()? { 1024 } else { bytes.len() };
            let at = u.int_in_range(0..=reach.min(bytes.len()) - 1)?;
            bytes[at] = u.arbitrary()?;
        }
        if u.ratio(1, 4)? {
            bytes.truncate(u.int_in_range(0..=bytes.len())?);
        }
        std::fs::write(&damaged, &bytes).unwrap();
        if let Ok(module) = Module::of_file(&damaged) {
            let _ = discover(&module);
            if let Ok(mut symbols) = fastinst::symbols::Symbols::load(&module) {
                let _ = symbols.line_of(module.span.start);
            }
        }
        Ok(())
    })
    .budget_ms(3_000);
}
