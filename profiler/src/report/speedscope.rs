//! Speedscope's format: stacks with their weights.

use super::name;
use super::stacks::Frame;
use crate::profile::Profile;
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl Profile {
    /// The profile in speedscope's format.
    pub fn speedscope(&self) -> String {
        let labels: Vec<_> = self.functions.iter().map(|function| &function.label).collect();
        let names = name::distinct(self, &labels);
        let mut numbers = BTreeMap::<Frame, usize>::new();
        let mut frames = Vec::<Value>::new();
        let (mut samples, mut weights) = (Vec::new(), Vec::new());
        for (stack, time) in self.self_times() {
            let stack = stack.iter().map(|frame| {
                *numbers.entry(*frame).or_insert_with(|| {
                    frames.push(match *frame {
                        Frame::Other(name) => json!({ "name": name }),
                        Frame::Function(at) => match (&labels[at].file, labels[at].line) {
                            (Some(file), Some(line)) => {
                                json!({ "name": names[at], "file": file, "line": line })
                            }
                            _ => json!({ "name": names[at] }),
                        },
                    });
                    frames.len() - 1
                })
            });
            samples.push(stack.collect::<Vec<_>>());
            weights.push(time);
        }
        let name = self.header.command.join(" ");
        let profile = json!({
            "type": "sampled",
            "name": name,
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": weights.iter().sum::<f64>(),
            "samples": samples,
            "weights": weights,
        });
        let all = json!({
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "exporter": format!("fastinst {}", env!("CARGO_PKG_VERSION")),
            "name": name,
            "shared": { "frames": frames },
            "profiles": [profile],
        });
        all.to_string() + "\n"
    }
}
