//! A running program with monitors, and programs for it.

use super::output_of;
use super::place::{Place, errors};
use std::process::{Child, Output, Stdio};
use test_support::eventually;

/// A running program with monitors; it is stopped at the end of the test.
pub(crate) struct Running<'a> {
    place: &'a Place,
    pub(crate) child: Option<Child>,
}

impl<'a> Running<'a> {
    pub(crate) fn start(place: &'a Place, monitors: &[&str], program: &str) -> Self {
        let mut command = place.command();
        command.env("XDG_RUNTIME_DIR", &place.0).arg("run");
        for monitor in monitors {
            command.arg("--monitor").arg(monitor);
        }
        let child = command
            .arg(program)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let running = Self { place, child: Some(child) };
        eventually("the program answers", || running.ask(&["status"]).status.success());
        running
    }

    pub(crate) fn ask(&self, request: &[&str]) -> Output {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        let mut command = self.place.command();
        command
            .env("XDG_RUNTIME_DIR", &self.place.0)
            .args(["ctl", &pid])
            .args(request)
            .output()
            .expect("it starts")
    }

    pub(crate) fn good(&self, request: &[&str]) -> String {
        let output = self.ask(request);
        assert!(output.status.success(), "{request:?}: {}", errors(&output));
        output_of(&output)
    }

    pub(crate) fn number(&self, request: &[&str]) -> i64 {
        let text = self.good(request);
        text.trim().parse().unwrap_or_else(|_| panic!("{request:?}: {text}"))
    }

    /// Waits until it gives this answer.
    pub(crate) fn await_number(&self, request: &[&str], wanted: i64) {
        eventually(&format!("{request:?}: {wanted}"), || self.number(request) == wanted);
    }

    /// Waits until it reports this status.
    pub(crate) fn await_status(&self, wanted: &str) {
        eventually(wanted, || self.good(&["status"]).contains(wanted));
    }

    /// Waits until it has had more CPU time, in which its monitors could have been called.
    pub(crate) fn goes_on(&self) {
        let before = self.processor_ticks();
        eventually("it works", || self.processor_ticks() > before + 3);
    }

    /// Its CPU time in hundredths of a second (proc_pid_stat(5)).
    fn processor_ticks(&self) -> u64 {
        let pid = self.child.as_ref().expect("it runs").id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let (_, fields) = stat.rsplit_once(')').expect("its name is in parentheses");
        let number = |at| fields.split(' ').nth(at).and_then(|text| text.parse::<u64>().ok());
        number(12).zip(number(13)).map_or(0, |(user, system)| user + system)
    }

    /// Interrupts it.
    pub(crate) fn end(mut self) -> Output {
        let child = self.child.take().expect("it runs");
        std::process::Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .expect("kill is there");
        child.wait_with_output().expect("it ends")
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Counts turns of loops, and calls.
pub(crate) const TURNS: &str = r#"(module (import "wizeng" "puti" (func $print (param i32))) (global $n (mut i32) (i32.const 0))
    (func (export "wasm:opcode:loop") (global.set $n (i32.add (global.get $n) (i32.const 1))))
    (func (export "wasm:opcode:call") (global.set $n (i32.add (global.get $n) (i32.const 1))))
    (func (export "wasm:exit") (call $print (i32.and (global.get $n) (i32.const 0x7fffffff)))))"#;

pub(crate) const SPIN: &str = r#"(module (func (export "_start") (local i32)
    (loop (local.set 0 (i32.add (local.get 0) (i32.const 1))) (br 0))))"#;

pub(crate) const CALLING: &str = r#"(module (func $work (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
    (func (export "_start") (local i32) (loop $l (local.set 0 (call $work (local.get 0))) (br $l))))"#;
