//! Folded stacks, the input of flame graphs: one line for each stack, with microseconds of self
//! time.

use super::stacks::Frame;
use crate::profile::Profile;
use std::collections::BTreeMap;

impl Profile {
    /// The profile as folded stacks. Their sum is the CPU time.
    pub fn folded(&self) -> String {
        let mut lines = BTreeMap::<String, f64>::new();
        for (frames, time) in self.self_times() {
            let name = |frame: &Frame| self.frame_name(*frame).replace(';', ":").replace('\n', " ");
            *lines.entry(frames.iter().map(name).collect::<Vec<_>>().join(";")).or_default() +=
                time / 1e3;
        }
        // The rounding error of a line is added to the next, so that the sum is exact.
        let mut carried = 0.0;
        let mut text = String::new();
        for (stack, microseconds) in lines {
            let exact = microseconds + carried;
            let whole = exact.round().max(0.0);
            carried = exact - whole;
            if whole > 0.0 {
                text += &format!("{stack} {whole:.0}\n");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use crate::report::made_up::{program, program_with_stacks};

    #[test]
    fn the_lines_sum_to_the_processor_time() {
        for profile in [program(), program_with_stacks()] {
            let text = profile.folded();
            let sum: f64 = text
                .lines()
                .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap())
                .sum();
            assert_eq!(sum, 1e6, "{text}");
            assert!(
                text.contains("main;parse;hash ") && text.contains("[system] 150000\n"),
                "{text}"
            );
        }
    }
}
