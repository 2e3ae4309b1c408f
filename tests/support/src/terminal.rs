//! Commands on a terminal whose other end belongs to the test.
//!
//! # Safety
//!
//! This module exists because a C function creates terminals.
#![allow(unsafe_code)]

use crate::{eventually, finished};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::FromRawFd as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

/// A command on a terminal.
#[derive(Debug)]
pub struct OnTerminal {
    child: Child,
    keys: File,
    /// All output since the last key.
    written: Arc<Mutex<Vec<u8>>>,
}

impl OnTerminal {
    /// Starts it on a terminal with this many columns and lines.
    ///
    /// # Panics
    /// If there is no terminal, or no such command.
    pub fn start(mut command: Command, (columns, lines): (u16, u16)) -> Self {
        let (ours, theirs) = terminal(columns, lines);
        let theirs_too = theirs.try_clone().expect("a descriptor");
        command.stdin(theirs_too).stdout(theirs).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        drop(command);
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let (mut from, to) = (ours.try_clone().expect("a descriptor"), Arc::clone(&written));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len) = from.read(&mut buffer) {
                let mut all = to.lock().unwrap_or_else(PoisonError::into_inner);
                all.extend_from_slice(&buffer[..len]);
            }
        });
        Self { child, keys: ours, written }
    }

    /// Presses keys; earlier output is discarded.
    ///
    /// # Panics
    /// If the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        self.written.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.keys.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Waits for words on the screen, which are between cursor movements.
    #[track_caller]
    pub fn shows(&self, what: &str) {
        eventually(what, || {
            let written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8_lossy(&written).contains(what)
        });
    }

    /// Its status and standard error, after its end.
    #[track_caller]
    pub fn end(self) -> Output {
        finished(self.child, "a command on a terminal")
    }
}

/// Both ends of a terminal of this size.
fn terminal(columns: u16, lines: u16) -> (File, File) {
    let (mut ours, mut theirs) = (-1, -1);
    let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: (1) buffers to write to; (2) new descriptors, which no other code has.
    unsafe {
        let (name, settings) = (std::ptr::null_mut(), std::ptr::null());
        let made = libc::openpty(&raw mut ours, &raw mut theirs, name, settings, &raw const size);
        assert_eq!(made, 0, "a terminal");
        (File::from_raw_fd(ours), File::from_raw_fd(theirs))
    }
}
