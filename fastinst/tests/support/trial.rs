//! Runs a program without and with the preload library: the externally visible behaviour must be
//! the same.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use super::support::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, Output};

pub const POLICIES: [&str; 4] = ["exact", "count", "adaptive", "paper"];

/// A compiled program, and its arguments.
#[derive(Clone)]
pub struct Trial {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub to: PathBuf,
}

/// A run under the library: the externally visible behaviour, and the profiles.
pub struct Outcome {
    pub output: Output,
    pub profiles: Vec<Value>,
}

impl Trial {
    /// `None` if the compiler is missing.
    pub fn with(compiler: &str, source: &str, flags: &[&str]) -> Option<Self> {
        if !has(compiler) {
            return None;
        }
        let to = folder("hardships");
        let program =
            compile_with(compiler, source, &to, &[&["-finstrument-functions"], flags].concat());
        Some(Self { program, args: Vec::new(), to })
    }

    /// Compiled by gcc or g++.
    pub fn of(source: &str, flags: &[&str]) -> Option<Self> {
        Self::with(if source.ends_with(".cc") { "g++" } else { "gcc" }, source, flags)
    }

    pub fn told<S: AsRef<OsStr>>(mut self, args: &[S]) -> Self {
        self.args = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        self
    }

    /// Runs it without the library.
    pub fn plain(&self) -> Output {
        patiently(clean(Command::new(&self.program)).args(&self.args))
    }

    /// Runs it under the library, with a command that `prepare` has changed.
    pub fn under(&self, policy: &str, prepare: impl FnOnce(&mut Command)) -> Outcome {
        let written = folder("written");
        let mut command = preloaded(&self.program, policy, &written.join("p.%p"));
        command.args(&self.args);
        prepare(&mut command);
        Outcome { output: patiently(&mut command), profiles: profiles(&written) }
    }

    /// Runs it under `fastinst run`.
    pub fn within_run(&self, policy: &str) -> Outcome {
        let path = self.to.join(format!("run.{policy}"));
        let mut command = fastinst();
        command
            .args(["run", "--policy", policy, "--format", "json", "-o"])
            .arg(&path)
            .arg(&self.program)
            .args(&self.args);
        let output = patiently(&mut command);
        Outcome { output, profiles: path.exists().then(|| profile(&path)).into_iter().collect() }
    }

    /// Checks that no policy changes the externally visible behaviour. Returns the profiles by
    /// policy.
    pub fn behaves(&self) -> BTreeMap<&'static str, Vec<Value>> {
        let plain = self.plain();
        let run = self.within_run("adaptive");
        assert_same(&run.output, &plain, &format!("{} in fastinst run", self.program.display()));
        POLICIES
            .into_iter()
            .map(|policy| (policy, self.behaves_as(&plain, policy, |_| ())))
            .collect()
    }

    pub fn behaves_as(
        &self,
        plain: &Output,
        policy: &str,
        prepare: impl FnOnce(&mut Command),
    ) -> Vec<Value> {
        let outcome = self.under(policy, prepare);
        assert_same(
            &outcome.output,
            plain,
            &format!("{} {:?} under {policy}", self.program.display(), self.args),
        );
        outcome.profiles
    }

    /// The same where the library may print messages: returns the profiles and the messages.
    pub fn behaves_and_says(&self, plain: &Output, policy: &str) -> (Vec<Value>, String) {
        let Outcome { output, profiles } = self.under(policy, |_| ());
        let complaints = text(&output.stderr);
        assert_eq!(
            (&output.stdout, output.status),
            (&plain.stdout, plain.status),
            "{} {:?} under {policy}: {complaints}",
            self.program.display(),
            self.args
        );
        (profiles, complaints)
    }

    /// Also checks that the exact policies agree with the independent counter about the program's
    /// one process.
    pub fn counts(&self) {
        let profiles = self.behaves();
        let args: Vec<&OsStr> = self.args.iter().map(AsRef::as_ref).collect();
        let truth = counted(&self.program, &args);
        assert!(!truth.is_empty());
        for policy in ["exact", "count"] {
            assert_eq!(profiles[policy].len(), 1, "{policy}");
            assert_eq!(
                exact_calls(&profiles[policy][0]),
                truth,
                "{} under {policy}",
                self.program.display()
            );
        }
    }
}

pub fn assert_same(output: &Output, plain: &Output, what: &str) {
    let seen = |output: &Output| (text(&output.stdout), text(&output.stderr), output.status);
    assert_eq!(seen(output), seen(plain), "{what}");
}

/// Runs a command; if it hangs, it is killed and the test fails.
pub fn patiently(command: &mut Command) -> Output {
    test_support::patiently(command)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The calls of all functions with that name in all profiles, in any library.
pub fn all_calls(profiles: &[Value], name: &str) -> f64 {
    let functions = profiles.iter().flat_map(|profile| profile["functions"].as_array().unwrap());
    let named = functions.filter(|function| function["name"] == name);
    named.fold(0.0, |sum, function| sum + function["calls"]["value"].as_f64().unwrap())
}

/// The calls of that function in each profile, in order of size.
pub fn each_calls(profiles: &[Value], name: &str) -> Vec<f64> {
    let mut calls: Vec<f64> =
        profiles.iter().map(|profile| all_calls(std::slice::from_ref(profile), name)).collect();
    calls.sort_by(f64::total_cmp);
    calls
}
