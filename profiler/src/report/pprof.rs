//! pprof's own format: a protocol buffer (profile.proto), uncompressed, which its tools read as they read compressed ones.
//!
//! Each function is one sample of one frame, or of two where its caller is known: its calls, and its time.

use crate::profile::Profile;
use std::collections::HashMap;

/// A message, as it grows.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn packed(&mut self, field: u32, values: &[u64]) {
        let mut inner = Self::default();
        values.iter().for_each(|&value| inner.varint(value));
        self.bytes(field, &inner.0);
    }
}

/// The table of strings: number 0 is the empty one.
struct Strings {
    known: HashMap<String, u64>,
    all: Vec<String>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.known.get(text) {
            return number;
        }
        let number = self.all.len() as u64;
        self.known.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
}

impl Profile {
    /// As pprof reads it.
    pub fn pprof(&self) -> Vec<u8> {
        let mut strings = Strings { known: HashMap::from([(String::new(), 0)]), all: vec![String::new()] };
        let mut profile = Message::default();
        for (kind, unit) in [("calls", "count"), ("time", "nanoseconds")] {
            let mut value = Message::default();
            value.number(1, strings.number(kind));
            value.number(2, strings.number(unit));
            profile.bytes(1, &value.0);
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
                sample.packed(1, &stack);
                sample.packed(2, &values(share));
                profile.bytes(2, &sample.0);
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
            location.bytes(4, &line.0);
            profile.bytes(4, &location.0);
            let name = strings.number(&function.label.name);
            let file = strings.number(function.label.file.as_deref().unwrap_or(""));
            let mut named = Message::default();
            named.number(1, id);
            named.number(2, name);
            named.number(3, name);
            named.number(4, file);
            profile.bytes(5, &named.0);
        }
        for text in &strings.all {
            profile.bytes(6, text.as_bytes());
        }
        profile.number(9, self.header.started);
        profile.number(10, (self.header.seconds * 1e9) as u64);
        profile.0
    }
}
