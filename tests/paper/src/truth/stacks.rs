//! Attributes samples to functions: the innermost function on the stack that has probes.
//!
//! Every function of the program's own file with debug information was compiled with probes,
//! inlined ones too. The C library's time belongs to the function that called it, as with times
//! measured by probes.

use super::clock::{Mapping, Sample, Watched};
use addr2line::Loader;
use fastinst::symbols::demangled;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, Module, Unwinder};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// Samples by function: in user mode, and in the kernel on its behalf.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Shares {
    pub(super) functions: BTreeMap<String, [u64; 2]>,
    /// All samples, including those without a function.
    pub(super) samples: [u64; 2],
    /// Whether the kernel's time was sampled.
    pub(super) kernel: bool,
}

/// The samples of several runs of a program.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs(Vec<Shares>);

impl Runs {
    pub(super) fn push(&mut self, run: Shares) {
        self.0.push(run);
    }

    pub(super) fn functions(&self) -> BTreeSet<&String> {
        self.0.iter().flat_map(|run| run.functions.keys()).collect()
    }

    /// The share of a function in all runs.
    pub(super) fn share(&self, name: &str, with_kernel: bool) -> f64 {
        let own: u64 = self.0.iter().map(|run| run.count_of(name, with_kernel)).sum();
        own as f64 / self.count(with_kernel).max(1) as f64
    }

    pub(super) fn count(&self, with_kernel: bool) -> u64 {
        self.0.iter().map(|run| run.count(with_kernel)).sum()
    }

    /// The variance of a function's share between runs, beyond the variance from the number of
    /// samples. Threads that wait for each other spend their time differently in each run.
    pub(super) fn variation(&self, name: &str, with_kernel: bool) -> f64 {
        let (mean, n) = (self.share(name, with_kernel), self.0.len() as f64);
        if n < 2.0 {
            return 0.0;
        }
        let of = |run: &Shares| {
            let samples = run.count(with_kernel).max(1) as f64;
            let share = run.count_of(name, with_kernel) as f64 / samples;
            ((share - mean).powi(2), mean * (1.0 - mean) / samples)
        };
        let (squares, by_chance) = self
            .0
            .iter()
            .map(of)
            .fold((0.0, 0.0), |sum, (square, chance)| (sum.0 + square, sum.1 + chance));
        (squares / (n - 1.0) - by_chance / n).max(0.0)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Shares {
    fn count_of(&self, name: &str, with_kernel: bool) -> u64 {
        let [user, kernel] = self.functions.get(name).copied().unwrap_or_default();
        user + if with_kernel { kernel } else { 0 }
    }

    /// All samples, or those in user mode.
    pub(super) fn count(&self, with_kernel: bool) -> u64 {
        self.samples[0] + if with_kernel { self.samples[1] } else { 0 }
    }
}

fn add(sum: &mut [u64; 2], counts: [u64; 2]) {
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// The name without suffixes that compilers append to parts and copies of a function.
pub(super) fn plain(name: &str) -> String {
    let ends = [".part.", ".isra.", ".constprop.", ".cold", ".lto_priv."];
    let end = ends.iter().filter_map(|end| name.find(end)).min().unwrap_or(name.len());
    name[..end].to_owned()
}

/// Attributes each sample of a run to a function.
pub(super) fn shares(watched: &Watched, program: &Path) -> Result<Shares, Box<dyn Error>> {
    let mut unwinder = UnwinderX86_64::new();
    for mapping in &watched.mappings {
        if let Some(module) = module(mapping) {
            unwinder.add_module(module);
        }
    }
    let own = watched.mappings.iter().find(|mapping| Path::new(&mapping.path) == program);
    let own = own.ok_or("the program's own mapping was not seen")?;
    let mut names =
        Names { loader: Loader::new(program)?, own: own.base..own.end, known: HashMap::new() };
    let (mut shares, mut cache) =
        (Shares { kernel: watched.kernel, ..Shares::default() }, CacheX86_64::new());
    for sample in &watched.samples {
        let count = if sample.kernel { [0, 1] } else { [1, 0] };
        add(&mut shares.samples, count);
        if let Some(name) = function(sample, &unwinder, &mut cache, &mut names) {
            add(shares.functions.entry(name).or_default(), count);
        }
    }
    Ok(shares)
}

fn function(
    sample: &Sample,
    unwinder: &UnwinderX86_64<Vec<u8>>,
    cache: &mut CacheX86_64,
    names: &mut Names,
) -> Option<String> {
    let mut read = |address: u64| {
        let at = address.checked_sub(sample.sp).ok_or(())? as usize;
        let bytes = sample.stack.get(at..at + 8).ok_or(())?;
        bytes.try_into().map(u64::from_le_bytes).map_err(drop)
    };
    let registers = UnwindRegsX86_64::new(sample.ip, sample.sp, sample.bp);
    let mut frames = unwinder.iter_frames(sample.ip, registers, cache, &mut read);
    for _ in 0..64 {
        let frame = frames.next().ok()??;
        if let Some(name) = names.at(frame.address_for_lookup()) {
            return Some(name);
        }
    }
    None
}

/// The names of the program's own functions.
struct Names {
    loader: Loader,
    own: Range<u64>,
    known: HashMap<u64, Option<String>>,
}

impl Names {
    /// The innermost function, inlined or not, at an address.
    fn at(&mut self, address: u64) -> Option<String> {
        if !self.own.contains(&address) {
            return None;
        }
        let (loader, base) = (&self.loader, self.own.start);
        let known = self.known.entry(address).or_insert_with(|| {
            let offset = address - base + loader.relative_address_base();
            let mut frames = loader.find_frames(offset).ok()?;
            let name = frames.next().ok()??.function?;
            Some(plain(&demangled(&name.raw_name().ok()?)))
        });
        known.clone()
    }
}

/// A mapped file for the unwinder.
fn module(mapping: &Mapping) -> Option<Module<Vec<u8>>> {
    let bytes = fs::read(&mapping.path).ok()?;
    let elf = goblin::elf::Elf::parse(&bytes).ok()?;
    let section = |name: &str| {
        let header = elf
            .section_headers
            .iter()
            .find(|header| elf.shdr_strtab.get_at(header.sh_name) == Some(name))?;
        let contents =
            bytes.get(header.sh_offset as usize..(header.sh_offset + header.sh_size) as usize)?;
        Some((header.sh_addr..header.sh_addr + header.sh_size, contents.to_vec()))
    };
    let split = |part: Option<(Range<u64>, Vec<u8>)>| {
        part.map_or((None, None), |(range, bytes)| (Some(range), Some(bytes)))
    };
    let (text_svma, text) = split(section(".text"));
    let (eh_frame_svma, eh_frame) = split(section(".eh_frame"));
    let (eh_frame_hdr_svma, eh_frame_hdr) = split(section(".eh_frame_hdr"));
    let first = elf
        .program_headers
        .iter()
        .find(|header| header.p_type == goblin::elf::program_header::PT_LOAD)?;
    let info = ExplicitModuleSectionInfo {
        base_svma: first.p_vaddr - first.p_offset,
        text_svma,
        text,
        got_svma: section(".got").map(|got| got.0),
        eh_frame_svma,
        eh_frame,
        eh_frame_hdr_svma,
        eh_frame_hdr,
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(mapping.path.clone(), mapping.base..mapping.end, mapping.base, info))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_copies_of_a_function_have_its_name() {
        assert_eq!(["f.part.0", "f.isra.0.cold", "f", "a.b"].map(plain), ["f", "f", "f", "a.b"]);
    }

    #[test]
    fn shares_are_of_all_time_or_of_user_time() {
        let run = |own: [u64; 2]| Shares {
            functions: [("f".to_owned(), own)].into(),
            samples: [60, 40],
            kernel: true,
        };
        let mut same = Runs::default();
        (0..2).for_each(|_| same.push(run([30, 10])));
        let shares = (same.share("f", true), same.share("f", false), same.share("g", true));
        assert_eq!(shares, (0.4, 0.5, 0.0));
        assert_eq!((same.count(true), same.count(false), same.len()), (200, 120, 2));
        assert_eq!(same.variation("f", true), 0.0);
        let mut apart = Runs::default();
        [[10, 0], [60, 10]].into_iter().for_each(|own| apart.push(run(own)));
        // 10 % and 70 %, from 100 samples each.
        let expected = 0.18 - 0.4 * 0.6 / 100.0;
        assert!((apart.variation("f", true) - expected).abs() < 1e-9);
    }
}
