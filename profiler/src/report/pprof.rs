//! pprof's format: a protocol buffer (profile.proto), uncompressed; pprof's tools read that as well
//! as compressed files.
//!
//! A sample is a stack, with its self time, and the calls of its innermost function that belong to
//! it. The times sum to the CPU time, the calls to all calls.

use super::stacks::{Frame, Stacks};
use crate::profile::{Function, Label, Profile};
use crate::protobuf::{Message, Strings};
use std::collections::BTreeMap;

/// A frame of a stack.
#[derive(Clone, Copy, Debug)]
pub enum StackFrame<'a> {
    /// A function of the profile.
    Function(&'a Function),
    /// Time that belongs to no function, by its name.
    Other(&'a str),
}

/// A stack, with the figures of its innermost frame.
#[derive(Clone, Debug)]
pub struct StackSample<'a> {
    /// The outermost frame first.
    pub frames: Vec<StackFrame<'a>>,
    /// Calls of the innermost function.
    pub calls: u64,
    /// CPU self time.
    pub nanoseconds: u64,
}

impl Profile {
    /// All stacks: their times sum to the CPU time, their calls to all calls.
    pub fn stack_samples(&self) -> Vec<StackSample<'_>> {
        let frame = |frame: &Frame| match frame {
            Frame::Function(at) => StackFrame::Function(&self.functions[*at]),
            Frame::Other(name) => StackFrame::Other(name),
        };
        let sample = |(frames, calls, nanoseconds): (Vec<Frame>, u64, u64)| StackSample {
            frames: frames.iter().map(frame).collect(),
            calls,
            nanoseconds,
        };
        self.pprof_samples().into_iter().map(sample).collect()
    }

    /// The profile in pprof's format.
    pub fn pprof(&self) -> Vec<u8> {
        let mut strings = Strings::default();
        let mut profile = Message::default();
        for (kind, unit) in [("calls", "count"), ("time", "nanoseconds")] {
            profile.message(1, &value_type(&mut strings, kind, unit));
        }
        let mut frames = BTreeMap::<Frame, u64>::new();
        for (stack, calls, time) in self.pprof_samples() {
            let mut numbers = Vec::new();
            for frame in stack.iter().rev() {
                let next = frames.len() as u64 + 1;
                numbers.push(*frames.entry(*frame).or_insert(next));
            }
            let mut sample = Message::default();
            sample.packed(1, numbers);
            sample.packed(2, [calls, time]);
            profile.message(2, &sample);
        }
        for (frame, number) in frames {
            self.pprof_frame(frame, number, &mut strings, &mut profile);
        }
        let period = value_type(&mut strings, "cpu", "nanoseconds");
        let by_default = strings.number("time");
        strings.write(6, &mut profile);
        profile.number(9, self.header.started);
        profile.number(10, (self.header.seconds * 1e9) as u64);
        if let crate::ClockSource::Kernel { hz, .. } = self.header.clock {
            profile.message(11, &period);
            profile.number(12, (1e9 / hz) as u64);
        }
        profile.number(14, by_default);
        profile.finish()
    }

    /// Stacks with calls and nanoseconds: whole numbers that keep their sums.
    fn pprof_samples(&self) -> Vec<(Vec<Frame>, u64, u64)> {
        let mut stacks: Stacks = self.self_times();
        // A function without time still has calls.
        let timed: std::collections::HashSet<Frame> =
            stacks.keys().filter_map(|frames| frames.last().copied()).collect();
        for at in
            (0..self.functions.len()).map(Frame::Function).filter(|frame| !timed.contains(frame))
        {
            stacks.insert(vec![at], 0.0);
        }
        let mut of_frame = BTreeMap::<Frame, f64>::new();
        for (frames, time) in &stacks {
            *of_frame.entry(frames[frames.len() - 1]).or_default() += time;
        }
        let (mut carried_time, mut carried_calls) = (0.0, BTreeMap::<Frame, f64>::new());
        let mut samples = Vec::new();
        for (frames, time) in stacks {
            let innermost = frames[frames.len() - 1];
            let calls = match innermost {
                Frame::Function(at) => self.functions[at].calls.value.max(0.0),
                Frame::Other(_) => 0.0,
            };
            let all = of_frame[&innermost];
            let calls = if all > 0.0 { calls * time / all } else { calls };
            let calls = rounded(calls, carried_calls.entry(innermost).or_default());
            samples.push((frames, calls, rounded(time, &mut carried_time)));
        }
        samples
    }

    fn pprof_frame(&self, frame: Frame, number: u64, strings: &mut Strings, profile: &mut Message) {
        let nowhere = Label { name: self.frame_name(frame).to_owned(), ..Label::default() };
        let label = match frame {
            Frame::Function(at) => &self.functions[at].label,
            Frame::Other(_) => &nowhere,
        };
        let mut line = Message::default();
        line.number(1, number);
        line.number(2, label.line.unwrap_or(0).into());
        let mut location = Message::default();
        location.number(1, number);
        location.number(3, label.offset);
        location.message(4, &line);
        profile.message(4, &location);
        let name = strings.number(&label.name);
        let file = strings.number(label.file.as_deref().unwrap_or(""));
        let mut function = Message::default();
        function.number(1, number);
        function.number(2, name);
        function.number(3, name);
        function.number(4, file);
        profile.message(5, &function);
    }
}

fn value_type(strings: &mut Strings, kind: &str, unit: &str) -> Message {
    let mut value = Message::default();
    value.number(1, strings.number(kind));
    value.number(2, strings.number(unit));
    value
}

/// A whole number; the rounding error is carried to the next.
fn rounded(value: f64, carried: &mut f64) -> u64 {
    let exact = value + *carried;
    let whole = exact.round().max(0.0);
    *carried = exact - whole;
    whole as u64
}

#[cfg(test)]
mod tests {
    use crate::report::made_up::{program, program_with_stacks};

    #[test]
    fn samples_sum_to_the_processor_time_and_to_all_calls() {
        for profile in [program(), program_with_stacks()] {
            let samples = profile.pprof_samples();
            assert_eq!(samples.iter().map(|(.., time)| time).sum::<u64>(), 1_000_000_000);
            assert_eq!(samples.iter().map(|(_, calls, _)| calls).sum::<u64>(), 4_000_111);
            let bytes = profile.pprof();
            for name in [&b"hash"[..], b"[system]", b"nanoseconds"] {
                assert!(
                    bytes.windows(name.len()).any(|window| window == name),
                    "{}",
                    String::from_utf8_lossy(name)
                );
            }
        }
    }
}
