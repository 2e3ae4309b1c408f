//! The C interface: `include/wordpatch.h`, one to one.
//!
//! A C caller names a site by its address. The first call adopts it, under the policy set in the
//! environment, and keeps it until [`wordpatch_forget`]; later calls find it without a lock.
//! [`wordpatch_last_error`] returns the calling thread's latest error.
//!
//! # Safety
//!
//! This module exists because C has no lifetimes. Every function is safe if its caller keeps the
//! promises that the header lists.
#![allow(unsafe_code)]

use crate::addr::CodeAddr;
use crate::address_map::{AddressMap, Entry};
use crate::completion;
use crate::config::Config;
use crate::effect;
use crate::error::{AdoptError, PatchError};
use crate::live;
use crate::patch_in_progress::PatchInProgress;
use crate::pending::Pending;
use crate::policy::Policy;
use crate::protocol::Layout;
use crate::site::PatchSite;
use crate::sync::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use crate::word::Word;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A site that a C caller has named.
struct Named {
    key: AtomicUsize,
    /// Null until it is adopted, and after it was forgotten.
    site: AtomicPtr<PatchSite>,
    /// The patch that was started and not finished.
    ///
    /// | value | meaning | changed by |
    /// |---|---|---|
    /// | `NONE` | nothing | the thread that starts: to `STARTING` |
    /// | `STARTING` | a thread is starting | that thread; a forked child, which has only one |
    /// | `AT_ONCE` | a patch that finished at once | the thread that finishes: to `NONE` |
    /// | any other | the number of the patch | the thread that finishes: to `NONE` |
    ///
    /// No lock: its holder could be missing in a forked child.
    pending: AtomicU64,
}

const NONE: u64 = 0;
const STARTING: u64 = u64::MAX;
const AT_ONCE: u64 = u64::MAX - 1;

impl Named {
    /// The value of `pending`; `None` if no patch is pending.
    fn pending(&self) -> Option<u64> {
        Some(self.pending.load(Ordering::Acquire))
            .filter(|&pending| pending != NONE && pending != STARTING)
    }

    fn site(&self) -> Option<&'static PatchSite> {
        // SAFETY: (1) null or a site that was leaked in `named`.
        unsafe { self.site.load(Ordering::Acquire).as_ref() }
    }

    /// The pending patch, while it is in progress.
    fn under_way(&self) -> Option<&'static PatchInProgress> {
        self.site()?.under_way(self.pending()?)
    }

    /// Takes the pending patch, for the thread that finishes it.
    fn take(&self) -> Option<Pending<'static>> {
        let pending = self.pending()?;
        let taken =
            self.pending.compare_exchange(pending, NONE, Ordering::AcqRel, Ordering::Relaxed);
        let number = taken.ok()?;
        let site = self.site().filter(|_| number != AT_ONCE);
        Some(site.map_or_else(Pending::complete, |site| site.stand_for(number)))
    }
}

/// In a forked child: no other thread exists that could be starting a patch.
pub(crate) fn forget_callers() {
    for named in SITES.iter() {
        let _ =
            named.pending.compare_exchange(STARTING, NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

impl Entry for Named {
    fn vacant() -> Self {
        Self {
            key: AtomicUsize::new(0),
            site: AtomicPtr::new(std::ptr::null_mut()),
            pending: AtomicU64::new(NONE),
        }
    }

    fn key(&self) -> &AtomicUsize {
        &self.key
    }
}

static SITES: AddressMap<Named> = AddressMap::new();

/// User addresses leave the topmost byte of a key free for the length.
const LENGTH_SHIFT: u32 = 56;

/// Why a call failed, for its thread.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Config(&'static str),
    #[error("{0}")]
    Adopt(#[from] AdoptError),
    #[error("{0}")]
    Patch(#[from] PatchError),
    #[error("the bytes to put at {0} are given by a null pointer")]
    NoBytes(CodeAddr),
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Replaces the eight bytes at `address` by `value` and returns when every thread that reaches it
/// executes the new bytes.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wordpatch_patch(address: *mut c_void, value: u64) -> bool {
    // SAFETY: (1) the caller.
    answer(|| unsafe { patch(address, Word::from_u64(value, 8)) })
}

/// The same for `len` bytes, one to eight.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wordpatch_patch_bytes(
    address: *mut c_void,
    bytes: *const c_void,
    len: usize,
) -> bool {
    // SAFETY: (1) the caller.
    answer(|| unsafe { patch(address, word(address, bytes, len)?) })
}

/// Starts to replace the eight bytes at `address` by `value`, without waiting.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wordpatch_start_patch(address: *mut c_void, value: u64) -> bool {
    // SAFETY: (1) the caller.
    answer(|| unsafe { start(address, Word::from_u64(value, 8)) })
}

/// The same for `len` bytes, one to eight.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn wordpatch_start_patch_bytes(
    address: *mut c_void,
    bytes: *const c_void,
    len: usize,
) -> bool {
    // SAFETY: (1) the caller.
    answer(|| unsafe { start(address, word(address, bytes, len)?) })
}

/// Finishes the patch that was started at `address`.
#[unsafe(no_mangle)]
pub extern "C" fn wordpatch_finish_patch(address: *mut c_void) -> bool {
    answer(|| {
        let pending = pending_at(address).and_then(Named::take);
        Ok(pending
            .ok_or(PatchError::NotPending { address: CodeAddr::from_ptr(address) })?
            .finish()?)
    })
}

/// Lets the completion thread finish it; [`wordpatch_finish_patch`] then waits for that.
#[unsafe(no_mangle)]
pub extern "C" fn wordpatch_finish_in_background(address: *mut c_void) -> bool {
    answer(|| {
        let named = pending_at(address)
            .ok_or(PatchError::NotPending { address: CodeAddr::from_ptr(address) })?;
        if let Some(patch) = named.under_way() {
            completion::enqueue(patch);
        }
        Ok(())
    })
}

/// Whether a patch that was started at `address` is not over yet.
#[unsafe(no_mangle)]
pub extern "C" fn wordpatch_is_pending(address: *mut c_void) -> bool {
    pending_at(address).is_some_and(|named| named.under_way().is_some())
}

/// Finishes patches that are pending in `[address, address + len)` and forgets the sites there:
/// their code is about to be unmapped.
#[unsafe(no_mangle)]
pub extern "C" fn wordpatch_forget(address: *mut c_void, len: usize) {
    let range = address as usize..(address as usize).saturating_add(len);
    let _ = catch_unwind(|| {
        for named in SITES.iter() {
            let at = named.key.load(Ordering::Acquire) & ((1 << LENGTH_SHIFT) - 1);
            if range.contains(&at) {
                drop(named.take());
                // The site itself is not freed: another thread may be using it.
                named.site.store(std::ptr::null_mut(), Ordering::Release);
            }
        }
    });
}

/// The error message, in one line, of the latest call that failed on this thread; empty before the
/// first failure. Valid until the next failure on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn wordpatch_last_error() -> *const c_char {
    // After the thread's local data is destroyed, no error can be stored.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Runs `act`, keeps its failure for [`wordpatch_last_error`], and never unwinds into C.
fn answer(act: impl FnOnce() -> Result<(), Failure>) -> bool {
    let failure = match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => return true,
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => "wordpatch broke one of its own invariants; please report this".to_owned(),
    };
    let text = CString::new(failure.replace('\0', " ")).unwrap_or_default();
    // After the thread's local data is destroyed, the error is lost.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    false
}

unsafe fn word(
    address: *mut c_void,
    bytes: *const c_void,
    len: usize,
) -> Result<Option<Word>, Failure> {
    if bytes.is_null() {
        return Err(Failure::NoBytes(CodeAddr::from_ptr(address)));
    }
    if !(1..=8).contains(&len) {
        return Err(AdoptError::Length { address: CodeAddr::from_ptr(address), len }.into());
    }
    // SAFETY: (1) the caller gives `len` readable bytes.
    Ok(Word::new(unsafe { std::slice::from_raw_parts(bytes.cast(), len) }))
}

unsafe fn patch(address: *mut c_void, word: Option<Word>) -> Result<(), Failure> {
    let Some(word) = word else { unreachable!("lengths were checked") };
    // SAFETY: (1) the caller.
    let (named, site) = unsafe { named(address, word.len())? };
    if named.pending.load(Ordering::Acquire) != NONE {
        return Err(PatchError::Contended { address: site.address() }.into());
    }
    // SAFETY: (1) the caller.
    Ok(unsafe { site.patch(word) }?)
}

unsafe fn start(address: *mut c_void, word: Option<Word>) -> Result<(), Failure> {
    let Some(word) = word else { unreachable!("lengths were checked") };
    // SAFETY: (1) the caller.
    let (named, site) = unsafe { named(address, word.len())? };
    if named.pending.compare_exchange(NONE, STARTING, Ordering::Acquire, Ordering::Relaxed).is_err()
    {
        return Err(PatchError::Contended { address: site.address() }.into());
    }
    // SAFETY: (1) the caller.
    let started =
        unsafe { site.start(word) }.map(|pending| pending.into_number().unwrap_or(AT_ONCE));
    named.pending.store(*started.as_ref().unwrap_or(&NONE), Ordering::Release);
    Ok(started.map(drop)?)
}

/// The site of `len` bytes at `address`, adopted if it is new.
unsafe fn named(
    address: *mut c_void,
    len: usize,
) -> Result<(&'static Named, &'static PatchSite), Failure> {
    let at = CodeAddr::from_ptr(address);
    if at.get() >> LENGTH_SHIFT != 0 {
        return Err(AdoptError::Unmapped { address: at }.into());
    }
    let key = at.get() | len << LENGTH_SHIFT;
    let named = SITES.enter(key);
    if let Some(site) = named.site() {
        return Ok((named, site));
    }
    // SAFETY: (1) the caller.
    let site: &'static PatchSite = Box::leak(Box::new(unsafe { adopt(at, len)? }));
    let place = std::ptr::from_ref(site).cast_mut();
    // If another thread adopts the same bytes, too, either site can be used.
    let _ = named.site.compare_exchange(
        std::ptr::null_mut(),
        place,
        Ordering::AcqRel,
        Ordering::Relaxed,
    );
    Ok((named, site))
}

/// The policy of the environment at the first call. Each early caller reads it, and the first to
/// publish wins: no thread waits for another, which the child of a fork may not have.
fn policy() -> &'static Result<Policy, String> {
    static POLICY: AtomicPtr<Result<Policy, String>> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: (1) null, or leaked below; (2) Acquire pairs with the exchange.
    if let Some(policy) = unsafe { POLICY.load(Ordering::Acquire).as_ref() } {
        return policy;
    }
    let policy = Config::from_env().and_then(|config| config.policy());
    let read = Box::into_raw(Box::new(policy.map_err(|error| error.to_string())));
    let first =
        POLICY.compare_exchange(std::ptr::null_mut(), read, Ordering::AcqRel, Ordering::Acquire);
    // SAFETY: as above.
    unsafe { &*first.map_or_else(|found| found, |_| read) }
}

unsafe fn adopt(at: CodeAddr, len: usize) -> Result<PatchSite, Failure> {
    let policy = policy().as_ref().map_err(|error| Failure::Config(error))?;
    // SAFETY: (1) the caller; `Layout::Any` promises nothing about the bytes.
    let site = unsafe { PatchSite::adopt(at, len, Layout::Any, policy) };
    let several = matches!(site, Err(AdoptError::SeveralInstructions { .. }));
    // SAFETY: (1) the adoption above found the bytes readable before it looked at the layout.
    if several && unsafe { is_one_instruction(at, len) } {
        // SAFETY: (1) the caller: the replacement begins instructions at the same places.
        return Ok(unsafe { PatchSite::adopt(at, len, Layout::One, policy) }?);
    }
    Ok(site?)
}

/// Whether the bytes begin, or are, one known instruction.
unsafe fn is_one_instruction(at: CodeAddr, len: usize) -> bool {
    // SAFETY: (1) the caller.
    let bytes = unsafe { live::load(at, len) }.to_le_bytes();
    effect::decode(at, &bytes[..len]).is_some_and(|instruction| instruction.len() == len)
}

/// The entry at `address` with a pending patch, for any length.
fn pending_at(address: *mut c_void) -> Option<&'static Named> {
    let keys = (1..=8).map(|len: usize| address as usize | len << LENGTH_SHIFT);
    keys.filter_map(|key| SITES.find(key)).find(|named| named.pending().is_some())
}
