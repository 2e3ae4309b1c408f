//! Discovery: finds the probe sites of a module.
//!
//! A module calls the hooks through its linkage table, through a slot, or directly. Its relocations
//! show which way is possible; places that lead there are found by searching for matching
//! displacements; and each is proved by decoding the function around it, from a known beginning, up
//! to exactly that instruction. Bytes that were not reached by decoding are not sites, whatever
//! they look like.
//!
//! - `module` lists loaded modules, or reads a file as if it were loaded.
//! - `hooks` says how a module reaches the hooks.
//! - `points` are static tracepoints, which a program's author has named for tools.
//! - `registered` is code that a runtime has registered with this library, and `jit` code that it
//!   has reported to perf.
//! - `unmodified` finds sites in functions that call no hook.
//! - `scan` finds the places that could be sites, `walk` proves them and finds which function they
//!   pass to the hook.

mod flow;
mod hooks;
mod image;
pub mod jit;
mod loaded_image;
mod module;
pub mod points;
pub(crate) mod registered;
mod scan;
pub mod unmodified;
mod walk;

pub use hooks::Hooks;
pub use image::ImageError;
pub(crate) use image::{Code, Image};
pub use module::Module;
pub(crate) use module::{Contents, LINK, module_name};

use crate::probe::Kind;
use callpatch::x86::{self, Transfer};
use callpatch::{ConditionalJump, Destination, Form, Role};
use std::path::PathBuf;
use walk::Walker;
use wordpatch::CodeAddr;

/// Why a module's sites cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is not an ELF file for this machine, or damaged.
    #[error("{}: {error}; give a program or library for x86-64 Linux", path.display())]
    Image {
        /// The file.
        path: PathBuf,
        /// Why.
        error: ImageError,
    },
}

/// A place that leads to a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundSite {
    /// Where it begins.
    pub address: CodeAddr,
    /// Which instruction it is.
    pub form: Form,
    /// What it is for.
    pub role: Role,
    /// Which hook it leads to.
    pub kind: Kind,
    /// The function that it seems to pass to the hook. If that was inlined, it is not the function
    /// that contains the site.
    pub function: Option<CodeAddr>,
    /// The function that it lies in.
    pub within: Option<CodeAddr>,
    /// It leads to a hook of the module's own.
    pub own: bool,
}

/// What was found in a module.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Its sites, by address.
    pub sites: Vec<FoundSite>,
    /// Exits that several functions seem to share, and these functions: compilers merge the ends of
    /// inlined functions.
    pub shared: Vec<(CodeAddr, Box<[CodeAddr]>)>,
    /// Conditional jumps to a hook: they cannot be switched.
    pub conditional: Vec<ConditionalJump>,
    /// How it reaches the hooks.
    pub hooks: Hooks,
    /// Places that look like sites and were not reached by decoding.
    pub refused: Vec<CodeAddr>,
    /// How many functions have sites.
    pub functions: usize,
    /// A compiler may have prepared functions in another way than by hooks.
    pub may_be_prepared: bool,
}

impl Discovery {
    /// Whether a site of this kind may lead there.
    pub fn is_hook(&self, kind: Kind, to: Destination) -> bool {
        self.hooks.kind_of(to) == Some(kind)
    }
}

/// Finds the sites of a module.
pub fn discover(module: &Module) -> Result<Discovery, DiscoveryError> {
    let mut discovery = Discovery::default();
    let failed = |error| DiscoveryError::Image { path: module.path.clone(), error };
    let bytes = module.contents()?;
    let image = Image::parse(&bytes).map_err(failed)?;
    // There may be a hundred thousand relocations, so they are read once.
    let is_known = |name| hooks::kind_of(name).is_some() || unmodified::profilers(name).is_some();
    let slots: Vec<_> = image.slots().filter(|named| is_known(named.name)).collect();
    discovery.may_be_prepared = unmodified::may_be_prepared(&image, &slots);
    discovery.hooks =
        Hooks::among(slots.into_iter(), &image, module.bias, !module.is_loaded, hooks::kind_of);
    if discovery.hooks.is_empty() {
        return Ok(discovery);
    }
    let starts = image.starts();
    let mut candidates = Vec::new();
    let segments = image.code();
    for segment in &segments {
        let base = CodeAddr::new(module.bias.wrapping_add(segment.address as usize));
        scan::candidates(segment.bytes, base, &discovery.hooks, &mut candidates);
    }
    let mut walkers: Vec<Walker<'_>> =
        segments.iter().map(|segment| Walker::new(segment, module.bias)).collect();
    // Three runs, each sorted.
    candidates.sort_by_key(|candidate| candidate.address);
    discovery.sites.reserve(candidates.len());
    let known = walk::Starts { sorted: &starts, bias: module.bias };
    let mut rest = &candidates[..];
    while let Some(first) = rest.first() {
        // All of one function are proved by one walk.
        let start = walk::start_of(&starts, first.address, module.bias);
        let end = walk::end_of(&starts, first.address, module.bias);
        let count = rest.partition_point(|candidate| candidate.address < end);
        let (here, others) = rest.split_at(count.max(1));
        rest = others;
        match walkers.iter_mut().find(|walker| walker.reaches(start)) {
            Some(walker) => walker.prove(start..end, here, &known, &mut discovery),
            None => discovery.refused.extend(here.iter().map(|candidate| candidate.address)),
        }
        discovery.functions += 1;
    }
    Ok(discovery)
}

/// A site as a walk has proved it.
fn site(
    candidate: &scan::Candidate,
    function: Option<CodeAddr>,
    within: CodeAddr,
) -> Option<FoundSite> {
    let Transfer::Switchable { form, .. } = candidate.transfer else { return None };
    let role =
        if matches!(form, Form::Jump | Form::JumpMemory) { Role::TailJump } else { Role::Call };
    let (address, kind, own) = (candidate.address, candidate.kind, candidate.own);
    Some(FoundSite { address, form, role, kind, function, within: Some(within), own })
}

/// As [`x86::decode`], of bytes that may end too early.
fn decode(at: CodeAddr, bytes: &[u8]) -> Option<Transfer> {
    x86::decode(at, bytes)
}
