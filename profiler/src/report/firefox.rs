//! Firefox Profiler's processed format (version 47): stacks with CPU time as weights, and the
//! slowest calls as markers on the threads that made them.
//!
//! A profile does not contain the times of stacks. So samples follow each other, and the timeline
//! is as long as the CPU time.

use super::name;
use super::stacks::Frame;
use super::tree::{self, Node};
use crate::profile::{Exemplar, Function, Profile};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

const VERSION: u32 = 47;

impl Profile {
    /// The profile in the Firefox Profiler's format.
    pub fn firefox(&self) -> String {
        let name = format!("{} time", self.header.kind_of_time());
        let mut threads = vec![self.firefox_thread(&name, self.header.process, true, &[])];
        let mut slow = BTreeMap::<i32, Vec<(&Function, &Exemplar)>>::new();
        for function in &self.functions {
            for call in &function.exemplars {
                slow.entry(call.thread).or_default().push((function, call));
            }
        }
        for (thread, mut calls) in slow {
            calls.sort_by(|a, b| (a.1.at - a.1.time).total_cmp(&(b.1.at - b.1.time)));
            threads.push(self.firefox_thread("slowest calls", thread, false, &calls));
        }
        let all = json!({
            "meta": {
                "version": 27,
                "preprocessedProfileVersion": VERSION,
                "processType": 0,
                "product": self.header.command.join(" "),
                "interval": 1,
                "startTime": self.header.started as f64 / 1e6,
                "stackwalk": 0,
                "debug": false,
                "symbolicated": true,
                "symbolicationNotSupported": true,
                "usesOnlyOneStackType": true,
                "doesNotUseFrameImplementation": true,
                "sourceCodeIsNotOnSearchfox": true,
                "CPUName": self.header.machine,
                "sampleUnits": { "time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns" },
                "extensions": { "length": 0, "baseURL": [], "id": [], "name": [] },
                "categories": [
                    { "name": "Functions", "color": "blue", "subcategories": ["Other"] },
                    { "name": "Other", "color": "grey", "subcategories": ["Other"] },
                ],
                "markerSchema": [{
                    "name": "slow",
                    "display": ["marker-chart", "marker-table", "timeline-overview"],
                    "chartLabel": "{marker.name}",
                    "tooltipLabel": "{marker.name}",
                    "data": [{ "key": "inside", "label": "Inside", "format": "string" }],
                }],
            },
            "libs": [],
            "pages": [],
            "threads": threads,
        });
        all.to_string() + "\n"
    }

    /// The main thread has all samples, the others only markers.
    fn firefox_thread(
        &self,
        name: &str,
        id: i32,
        main: bool,
        calls: &[(&Function, &Exemplar)],
    ) -> Value {
        let mut texts = Texts::default();
        let nodes = if main { tree::nodes(&self.self_times(), 0.0) } else { Vec::new() };
        // The root represents all time, and is no frame.
        let nodes = nodes.get(1..).unwrap_or_default();
        let (functions, of_node) = self.firefox_functions(nodes, &mut texts);
        let markers = self.firefox_markers(calls, &mut texts);
        json!({
            "processType": "default",
            "processName": self.header.command.first(),
            "processStartupTime": 0,
            "processShutdownTime": null,
            "registerTime": 0,
            "unregisterTime": null,
            "pausedRanges": [],
            "name": name,
            "isMainThread": main,
            "pid": self.header.process.to_string(),
            "tid": id,
            "samples": samples(nodes),
            "markers": markers,
            "stackTable": stacks(nodes, &of_node),
            "frameTable": frames(functions.len()),
            "funcTable": {
                "length": functions.len(),
                "isJS": vec![false; functions.len()],
                "relevantForJS": vec![false; functions.len()],
                "name": functions.iter().map(|one| one.0).collect::<Vec<_>>(),
                "resource": vec![-1; functions.len()],
                "fileName": functions.iter().map(|one| one.1).collect::<Vec<_>>(),
                "lineNumber": functions.iter().map(|one| one.2).collect::<Vec<_>>(),
                "columnNumber": vec![Value::Null; functions.len()],
            },
            "resourceTable": { "length": 0, "lib": [], "name": [], "host": [], "type": [] },
            "nativeSymbols": { "length": 0, "address": [], "functionSize": [], "libIndex": [], "name": [] },
            "stringArray": texts.all,
        })
    }

    /// Functions with their name, file and line; and the function of each node.
    #[allow(clippy::type_complexity, reason = "three columns of one table")]
    fn firefox_functions(
        &self,
        nodes: &[Node],
        texts: &mut Texts,
    ) -> (Vec<(usize, Option<usize>, Option<u32>)>, Vec<usize>) {
        let labels: Vec<_> = self.functions.iter().map(|function| &function.label).collect();
        let names = name::distinct(self, &labels);
        let mut numbers = BTreeMap::<Frame, usize>::new();
        let mut functions = Vec::new();
        let of_node = nodes.iter().filter_map(|node| node.frame).map(|frame| {
            *numbers.entry(frame).or_insert_with(|| {
                functions.push(match frame {
                    Frame::Other(name) => (texts.number(name), None, None),
                    Frame::Function(at) => (
                        texts.number(&names[at]),
                        labels[at].file.as_ref().map(|file| texts.number(file)),
                        labels[at].line,
                    ),
                });
                functions.len() - 1
            })
        });
        let of_node = of_node.collect();
        (functions, of_node)
    }

    fn firefox_markers(&self, calls: &[(&Function, &Exemplar)], texts: &mut Texts) -> Value {
        let names: HashMap<_, &str> =
            self.functions.iter().map(|one| (one.id, one.label.name.as_str())).collect();
        let data = calls.iter().map(|(_, call)| {
            let inside = call.inside.iter().map(|callee| {
                let name = names.get(&callee.function).unwrap_or(&"?");
                format!("{name} {} ({}×)", super::human::time(callee.time), callee.calls)
            });
            json!({ "type": "slow", "inside": inside.collect::<Vec<_>>().join(", ") })
        });
        let data: Vec<Value> = data.collect();
        let named: Vec<usize> =
            calls.iter().map(|(function, _)| texts.number(&function.label.name)).collect();
        json!({
            "length": calls.len(),
            "data": data,
            "name": named,
            "startTime": calls.iter().map(|(_, call)| (call.at - call.time).max(0.0) / 1e6).collect::<Vec<_>>(),
            "endTime": calls.iter().map(|(_, call)| call.at / 1e6).collect::<Vec<_>>(),
            "phase": vec![1; calls.len()],
            "category": vec![0; calls.len()],
        })
    }
}

/// A sample for each node that has self time.
fn samples(nodes: &[Node]) -> Value {
    let own: Vec<(usize, f64)> = nodes
        .iter()
        .enumerate()
        .map(|(at, node)| (at, node.own / 1e6))
        .filter(|(_, own)| *own > 0.0)
        .collect();
    let mut begin = 0.0;
    let times = own.iter().map(|(_, time)| {
        let at = begin;
        begin += time;
        at
    });
    json!({
        "time": times.collect::<Vec<_>>(),
        "length": own.len(),
        "weightType": "tracing-ms",
        "weight": own.iter().map(|(_, time)| *time).collect::<Vec<_>>(),
        "stack": own.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
    })
}

/// Each node is a stack: its frame on top of its parent's stack.
fn stacks(nodes: &[Node], of_node: &[usize]) -> Value {
    let mut open = Vec::<usize>::new();
    let prefixes = nodes.iter().enumerate().map(|(at, node)| {
        open.truncate(node.depth - 1);
        let prefix = open.last().copied();
        open.push(at);
        prefix
    });
    let prefixes: Vec<Option<usize>> = prefixes.collect();
    json!({
        "length": nodes.len(),
        "frame": of_node,
        "prefix": prefixes,
        "category": vec![0; nodes.len()],
        "subcategory": vec![0; nodes.len()],
    })
}

/// A frame for each function.
fn frames(count: usize) -> Value {
    let nothing = vec![Value::Null; count];
    json!({
        "length": count,
        "address": vec![-1; count],
        "inlineDepth": vec![0; count],
        "category": vec![0; count],
        "subcategory": vec![0; count],
        "func": (0..count).collect::<Vec<_>>(),
        "nativeSymbol": nothing,
        "innerWindowID": vec![0; count],
        "implementation": nothing,
        "line": nothing,
        "column": nothing,
    })
}

/// The string table.
#[derive(Debug, Default)]
struct Texts {
    all: Vec<String>,
    known: HashMap<String, usize>,
}

impl Texts {
    fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        self.all.push(text.to_owned());
        self.known.insert(text.to_owned(), self.all.len() - 1);
        self.all.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use crate::report::made_up::program_with_stacks;
    use crate::{Callee, Exemplar, FuncId};
    use serde_json::Value;

    #[test]
    fn every_number_is_that_of_something_and_weights_sum_to_the_cpu_time() {
        let mut profile = program_with_stacks();
        let inside = vec![Callee { function: FuncId(4), calls: 2, time: 1e6 }];
        profile.functions[1].exemplars = vec![Exemplar { time: 3e6, thread: 9, at: 8e6, inside }];
        let told: Value = serde_json::from_str(&profile.firefox()).unwrap();
        let threads = told["threads"].as_array().unwrap();
        for thread in threads {
            let length = |table: &str| thread[table]["length"].as_u64().unwrap();
            let below = |table: &str, column: &str, end: u64| {
                let values = thread[table][column].as_array().unwrap();
                assert_eq!(values.len() as u64, length(table), "{table} {column}");
                assert!(
                    values.iter().all(|value| value.as_u64().is_none_or(|at| at < end)),
                    "{table} {column}"
                );
            };
            let texts = thread["stringArray"].as_array().unwrap().len() as u64;
            below("funcTable", "name", texts);
            below("frameTable", "func", length("funcTable"));
            below("stackTable", "frame", length("frameTable"));
            below("samples", "stack", length("stackTable"));
            below("markers", "name", texts);
            let prefixes = thread["stackTable"]["prefix"].as_array().unwrap();
            let above =
                |(at, prefix): (usize, &Value)| prefix.as_u64().is_none_or(|up| up < at as u64);
            assert!(prefixes.iter().enumerate().all(above));
        }
        let weights = threads[0]["samples"]["weight"].as_array().unwrap().iter();
        let sum: f64 = weights.map(|weight| weight.as_f64().unwrap()).sum();
        assert!((sum - 1000.0).abs() < 1e-6, "{sum}");
        let markers = &threads[1]["markers"];
        assert_eq!((&markers["startTime"][0], &markers["endTime"][0]), (&5.0.into(), &8.0.into()));
        assert_eq!(markers["data"][0]["inside"], "hash 1.00 ms (2×)");
    }
}
