//! pprof's own format: a protocol buffer (profile.proto), uncompressed, which its tools read as they read compressed ones.
//!
//! Each function is one sample of one frame, or of two where its caller is known: its calls, and its time.

use crate::profile::Profile;
use crate::protobuf::{Message, Strings};
use std::collections::HashMap;

impl Profile {
    /// As pprof reads it.
    pub fn pprof(&self) -> Vec<u8> {
        let mut strings = Strings::default();
        let mut profile = Message::default();
        for (kind, unit) in [("calls", "count"), ("time", "nanoseconds")] {
            let mut value = Message::default();
            value.number(1, strings.number(kind));
            value.number(2, strings.number(unit));
            profile.message(1, &value);
        }
        let known: HashMap<_, _> = self
            .functions
            .iter()
            .enumerate()
            .map(|(at, function)| ((function.label.module, function.label.offset), at))
            .collect();
        for (at, function) in self.functions.iter().enumerate() {
            let values = |share: f64| {
                let time = function.own.or(function.total).map_or(0.0, |time| time.value.max(0.0));
                [(function.calls.value * share).round() as u64, (time * share).round() as u64]
            };
            let callers = function.callers(&known);
            let rest = 1.0 - callers.iter().map(|(_, share)| share).sum::<f64>();
            for (stack, share) in callers
                .iter()
                .map(|&(caller, share)| (vec![at as u64 + 1, caller as u64 + 1], share))
                .chain((rest > 1e-9).then(|| (vec![at as u64 + 1], rest)))
            {
                let mut sample = Message::default();
                sample.packed(1, stack);
                sample.packed(2, values(share));
                profile.message(2, &sample);
            }
        }
        for (at, function) in self.functions.iter().enumerate() {
            let id = at as u64 + 1;
            let mut line = Message::default();
            line.number(1, id);
            line.number(2, function.label.line.unwrap_or(0).into());
            let mut location = Message::default();
            location.number(1, id);
            location.number(3, function.label.offset);
            location.message(4, &line);
            profile.message(4, &location);
            let name = strings.number(&function.label.name);
            let file = strings.number(function.label.file.as_deref().unwrap_or(""));
            let mut named = Message::default();
            named.number(1, id);
            named.number(2, name);
            named.number(3, name);
            named.number(4, file);
            profile.message(5, &named);
        }
        strings.write(6, &mut profile);
        profile.number(9, self.header.started);
        profile.number(10, (self.header.seconds * 1e9) as u64);
        profile.finish()
    }
}
