//! The sample of the demo where there is no C compiler: functions that call the hooks as a compiler
//! would have them do.
//!
//! # Safety
//!
//! This module exists to call the hooks, which the preload library provides when it is there.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::hint::black_box;
use std::process::ExitCode;

type Hook = extern "C" fn(*const (), *const ());

/// Calls the hooks around `body`, if there are any, as a compiled function does.
#[inline(always)]
fn probed<T>(hooks: Option<(Hook, Hook)>, function: *const (), body: impl FnOnce() -> T) -> T {
    if let Some((enter, _)) = hooks {
        enter(function, function);
    }
    let result = body();
    if let Some((_, exit)) = hooks {
        exit(function, function);
    }
    result
}

/// The hooks of the preload library.
fn hooks() -> Option<(Hook, Hook)> {
    let find = |name: &std::ffi::CStr| {
        // SAFETY: (1) a name; (2) the loader's own search, behind this program.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        // SAFETY: (1) a function of that name has this type.
        (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut libc::c_void, Hook>(found) })
    };
    Some((find(c"__cyg_profile_func_enter")?, find(c"__cyg_profile_func_exit")?))
}

#[inline(never)]
fn next_random(state: &mut u64, hooks: Option<(Hook, Hook)>) -> u64 {
    probed(hooks, next_random as *const (), || {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    })
}

#[inline(never)]
fn count_word(words: &mut HashMap<u64, u32>, word: u64, hooks: Option<(Hook, Hook)>) {
    probed(hooks, count_word as *const (), || *words.entry(word).or_default() += 1);
}

#[inline(never)]
fn read_text(length: u32, hooks: Option<(Hook, Hook)>) -> HashMap<u64, u32> {
    probed(hooks, read_text as *const (), || {
        let (mut words, mut state) = (HashMap::new(), 42);
        for _ in 0..length {
            let word = next_random(&mut state, hooks) % 5000;
            count_word(&mut words, black_box(word), hooks);
        }
        words
    })
}

/// The argument that runs this; it has to be the only one.
pub(crate) const NAME: &str = "sample";

pub(crate) fn run() -> ExitCode {
    // A program that loads libraries is watched by the preload library, even if nothing else has
    // probes. SAFETY: (1) loads nothing.
    unsafe { libc::dlopen(std::ptr::null(), libc::RTLD_NOW) };
    let words = read_text(3_000_000, hooks());
    println!("{} different words", words.len());
    ExitCode::SUCCESS
}
