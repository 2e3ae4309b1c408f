//! How far a long experiment is, on a terminal; and its end at the first interruption, with what
//! was measured by then.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use tmax::interrupt;

/// A bar of so many steps, hidden where stderr is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    stop: &'static AtomicBool,
}

impl Progress {
    /// From now on an interruption asks, and a second one kills.
    pub(crate) fn new(steps: u64) -> Result<Self, Box<dyn Error>> {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        let style =
            ProgressStyle::with_template("{msg:24} [{wide_bar}] {percent:>3} %, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Ok(Self { bar, stop: interrupt::prepare()? })
    }

    /// So many steps of `what` are done.
    pub(crate) fn passed(&self, what: &str, steps: u64) {
        self.bar.set_message(what.to_owned());
        self.bar.inc(steps);
    }

    /// What is set by an interruption.
    pub(crate) fn stop(&self) -> &'static AtomicBool {
        self.stop
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Takes the bar away; what to say of an interruption, if there was one.
    pub(crate) fn end(self) -> Option<String> {
        // A bar that is finished is at its end.
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
