//! The progress of a long experiment, on a terminal; and its end at the first interruption, with
//! the measurements so far.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use tmax::interrupt;

/// A progress bar, hidden if stderr is not a terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    stop: &'static AtomicBool,
}

impl Progress {
    /// From now on the first interruption requests a stop, and a second one kills the process.
    pub(crate) fn new(steps: u64) -> Result<Self, Box<dyn Error>> {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{msg:24} [{wide_bar}] {percent:>3} %, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Ok(Self { bar, stop: interrupt::prepare()? })
    }

    /// Records that many finished steps of `what`.
    pub(crate) fn passed(&self, what: &str, steps: u64) {
        self.bar.set_message(what.to_owned());
        self.bar.inc(steps);
    }

    /// The flag that an interruption sets.
    pub(crate) fn stop(&self) -> &'static AtomicBool {
        self.stop
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Removes the bar; returns a message about the interruption, if there was one.
    pub(crate) fn end(self) -> Option<String> {
        // A finished bar would show its end.
        let percent = self.bar.position() * 100 / self.bar.length().unwrap_or(1).max(1);
        self.bar.finish_and_clear();
        self.is_stopped()
            .then(|| format!("Interrupted after {percent} %: this is what was measured by then."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interruption_is_told_with_what_was_done() {
        static STOPPED: AtomicBool = AtomicBool::new(true);
        let progress = Progress { bar: ProgressBar::hidden(), stop: &STOPPED };
        progress.bar.set_length(6);
        progress.passed("a third", 2);
        let said = progress.end().expect("it was interrupted");
        assert!(said.contains("33 %"), "{said}");
    }
}
