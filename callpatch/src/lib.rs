//! Switches calls in running x86-64 code on and off, and redirects them, without stopping a thread.
//!
//! A site is a call or a jump to a hook. Off, it is an instruction of the same length that does
//! nothing. The two differ in one byte, and a byte is never torn: a switch is one plain store, at
//! any alignment, for which no thread waits.
//!
//! ```
//! use callpatch::{CallSite, Destination, Role, Switch};
//! use wordpatch::{CodeMemory, Policy};
//!
//! // A function that calls the hook behind it: mov eax, 1; call hook; ret. The hook: mov eax, 2; ret.
//! let mut memory = CodeMemory::new(64)?;
//! memory.write(0, &[0xb8, 1, 0, 0, 0, 0xe8, 6, 0, 0, 0, 0xc3]);
//! memory.write(16, &[0xb8, 2, 0, 0, 0, 0xc3]);
//! let (function, hook) = (memory.base(), memory.base().offset(16));
//! // SAFETY: the bytes just written are a function of that type.
//! let function: extern "C" fn() -> u32 = unsafe { std::mem::transmute(function.as_ptr()) };
//!
//! // Adopted, because it is a call and leads to the hook.
//! let is_hook = |to| to == Destination::Code(hook);
//! let site = unsafe { CallSite::adopt(memory.base().offset(5), Role::Call, &Policy::new()?, is_hook)? };
//! assert_eq!(function(), 2);
//!
//! let executer = std::thread::spawn(move || (0..100_000).map(|_| function()).collect::<std::collections::BTreeSet<_>>());
//! site.set(Switch::Off)?;
//! assert_eq!(function(), 1);
//! site.set(Switch::On)?;
//! assert!(executer.join().unwrap().is_subset(&[1, 2].into()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`CallSite`] is a prepared site; [`Survey`] adopts many, [`set_all`] switches many.
//! - [`Retarget`] redirects sites, all of them with one barrier; [`retarget::protocol`] is the
//!   order of its steps.
//! - [`Islands`] are stubs within reach of a module, wherever their bodies are; [`Landings`] are
//!   jumps at the targets of puns.
//! - [`Ownership`] coordinates the actors that switch one probe: the hook that retires it, the
//!   agent that arms it again, and its user.
//! - [`x86`] has the encodings of all instructions that the crate writes by hand.
//! - [`capi`] is the C interface.
//! - [`Strategy::Paper`] toggles calls as the literature does, for comparison.
//!
//! The crate does not search for sites, does not decode programs (it recognises the five
//! instructions that it switches), and does not depend on the purpose of a hook. It is built on
//! [`wordpatch`], whose assumptions A1 to A5 it cites; a switch needs only A3, A4 and A5.

pub mod capi;
mod destination;
mod error;
mod gate;
mod island;
mod landing;
mod lanes;
mod near;
mod ownership;
mod paper;
mod reach;
pub mod retarget;
mod site;
mod survey;
pub mod x86;

pub use destination::Destination;
pub use error::{AdoptError, Broken, IslandError, RetargetError, SetError};
pub use gate::Gate;
pub use island::{Islands, Slot, SlotPair, Stub};
pub use landing::{Landings, NoLanding};
pub use ownership::{Act, Begun, Owner, Ownership, ProbeState, Term, Verdict};
pub use reach::{Grid, Reach};
pub use retarget::{Retarget, Retargeted};
pub use site::{CallSite, Switched, set_all};
pub use survey::{Strategy, Survey};
pub use x86::{ConditionalJump, Form, Role, Switch};
