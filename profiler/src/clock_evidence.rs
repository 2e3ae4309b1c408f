//! Evidence from a sampling clock: the functions in which the CPU time of a process was spent.
//!
//! The clock is independent of probes, so it also sees functions that are called too often to be
//! timed, and code without probes. The runtime attributes its samples to functions and passes the
//! sums as plain data; `Profile::reconcile` combines them with the evidence of probes.
//!
//! Times are nanoseconds of CPU time. They are weighted thread by thread: a thread's samples share
//! that thread's own CPU time, so lost samples and short threads do not bias sums.

use crate::FuncId;
use serde::{Deserialize, Serialize};

/// The observations of a sampling clock in a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockEvidence {
    /// The kind of clock.
    pub source: ClockSource,
    /// CPU time of all threads.
    pub processor: f64,
    /// Of it, time in the kernel that no function is charged for.
    pub system: f64,
    /// Of it, user time whose function is not known.
    pub unknown: f64,
    /// Of that, time that may be any function's: nothing shows where it was spent.
    #[serde(default)]
    pub unplaced: f64,
    /// Samples with an address.
    pub samples: u64,
    /// Samples with a stack.
    pub stack_samples: u64,
    /// The functions that were seen. A function that is missing was never seen.
    pub functions: Vec<ClockFunction>,
    /// The stacks that were seen, each once.
    pub stacks: Vec<ClockStack>,
    /// Functions that the clock cannot see: they were inlined, and there is no debug information.
    pub invisible: Vec<FuncId>,
}

impl ClockEvidence {
    /// Scales all times down if they are more than the process used.
    pub fn limit(&mut self, processor: f64) {
        let factor = processor / self.processor;
        if factor.is_nan() || factor >= 1.0 {
            return;
        }
        let sums = [&mut self.processor, &mut self.system, &mut self.unknown, &mut self.unplaced];
        let functions = self.functions.iter_mut().flat_map(|function| {
            let ClockFunction { innermost, elsewhere, deviation, on_stack, .. } = function;
            [innermost, elsewhere, deviation, on_stack]
        });
        let stacks = self.stacks.iter_mut().map(|stack| &mut stack.time);
        sums.into_iter().chain(functions).chain(stacks).for_each(|time| *time *= factor);
    }
}

/// The kind of clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "clock", rename_all = "lowercase")]
pub enum ClockSource {
    /// There is no clock, for this reason.
    None {
        /// The reason in one line for the user, with the remedy.
        why: String,
    },
    /// The kernel's `task-clock` event.
    Kernel {
        /// Samples a second of CPU time.
        hz: f64,
        /// Samples with stacks a second; 0 if there are none.
        stack_hz: f64,
        /// Whether time in the kernel is sampled, too, and charged to the function that entered it.
        kernel: bool,
    },
    /// The agent samples each thread's innermost timed call. That yields shares of completely timed
    /// functions only.
    Frames {
        /// Samples per second.
        hz: f64,
        /// The reason why it is not the kernel's clock.
        why: String,
    },
    /// Time was measured by probes around every call: policy `exact`.
    #[default]
    Probes,
}

/// The clock's evidence about one function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockFunction {
    /// The function.
    pub function: FuncId,
    /// Time with it innermost among the functions that have probes.
    pub innermost: f64,
    /// Of it, time in code without probes that the function has called (a library).
    pub elsewhere: f64,
    /// Samples with it innermost.
    pub samples: u64,
    /// The standard deviation of `elsewhere` because few stacks show the callers of that code.
    #[serde(default)]
    pub deviation: f64,
    /// Time with it on the stack, counted once in recursion.
    pub on_stack: f64,
    /// Stack samples with it on the stack.
    pub stack_samples: u64,
}

/// A stack of functions that have probes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockStack {
    /// Its frames, the outermost first.
    pub frames: Vec<FuncId>,
    /// CPU time.
    pub time: f64,
    /// The number of its samples.
    pub samples: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_of_more_than_there_was_is_cut_down_in_proportion() {
        let function = ClockFunction {
            innermost: 6.0,
            elsewhere: 2.0,
            on_stack: 8.0,
            ..ClockFunction::default()
        };
        let mut evidence = ClockEvidence {
            processor: 10.0,
            system: 1.0,
            unknown: 3.0,
            functions: vec![function],
            stacks: vec![ClockStack { time: 6.0, ..ClockStack::default() }],
            ..ClockEvidence::default()
        };
        let before = evidence.clone();
        evidence.limit(20.0);
        assert_eq!(evidence, before);
        evidence.limit(5.0);
        assert_eq!((evidence.processor, evidence.system, evidence.unknown), (5.0, 0.5, 1.5));
        let times = |of: ClockFunction| [of.innermost, of.elsewhere, of.on_stack];
        assert_eq!((times(evidence.functions[0]), evidence.stacks[0].time), ([3.0, 1.0, 4.0], 3.0));
        ClockEvidence::default().limit(1.0);
        evidence.limit(0.0);
        assert_eq!(evidence.processor, 0.0);
    }
}
