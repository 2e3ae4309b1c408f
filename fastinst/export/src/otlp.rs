//! OTLP profiles: the requests that an OpenTelemetry collector accepts at
//! `/v1development/profiles`.
//!
//! The signal is in development, and its messages change between versions: they are those of the
//! crate `opentelemetry-proto`, which the OpenTelemetry project generates. A profile has one kind
//! of value, so a source becomes two: CPU time and calls, with the stacks that the sampling clock
//! recorded.

use crate::rows::Source;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, InstrumentationScope, KeyValue, any_value::Value,
};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, Line, Location, Mapping, Profile, ProfilesDictionary, ResourceProfiles, Sample,
    ScopeProfiles, Stack, ValueType,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use profiler::{StackFrame, StackSample};
use prost::Message;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Profiles as a request to a collector, which is also the format of files.
pub fn otlp(sources: &[Source]) -> Vec<u8> {
    let mut dictionary = Dictionary::new();
    let profiles = sources.iter().map(|source| dictionary.resource(source)).collect();
    ExportProfilesServiceRequest { resource_profiles: profiles, dictionary: Some(dictionary.all) }
        .encode_to_vec()
}

/// The tables that profiles refer to by index; index 0 of each table is empty.
struct Dictionary {
    all: ProfilesDictionary,
    strings: HashMap<String, i32>,
    mappings: HashMap<String, i32>,
    locations: HashMap<(i32, String, u64), i32>,
    stacks: HashMap<Vec<i32>, i32>,
}

/// The index of the next element of a table.
fn next<T>(table: &[T]) -> i32 {
    i32::try_from(table.len()).unwrap_or(i32::MAX)
}

impl Dictionary {
    fn new() -> Self {
        let all = ProfilesDictionary {
            mapping_table: vec![Mapping::default()],
            location_table: vec![Location::default()],
            function_table: vec![Function::default()],
            link_table: vec![Default::default()],
            string_table: vec![String::new()],
            attribute_table: vec![Default::default()],
            stack_table: vec![Stack::default()],
        };
        let (mappings, locations) = (HashMap::new(), HashMap::new());
        let strings = HashMap::from([(String::new(), 0)]);
        Self { all, strings, mappings, locations, stacks: HashMap::new() }
    }

    fn string(&mut self, text: &str) -> i32 {
        if let Some(number) = self.strings.get(text) {
            return *number;
        }
        let number = next(&self.all.string_table);
        self.all.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), number);
        number
    }

    fn value_type(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType { type_strindex: self.string(kind), unit_strindex: self.string(unit) }
    }

    fn mapping(&mut self, path: &str) -> i32 {
        if path.is_empty() {
            return 0;
        }
        if let Some(number) = self.mappings.get(path) {
            return *number;
        }
        let number = next(&self.all.mapping_table);
        let filename_strindex = self.string(path);
        self.all.mapping_table.push(Mapping { filename_strindex, ..Mapping::default() });
        self.mappings.insert(path.to_owned(), number);
        number
    }

    fn location(&mut self, source: &Source, frame: &StackFrame<'_>) -> i32 {
        let (name, file, line, module, offset) = match frame {
            StackFrame::Other(name) => (*name, None, None, "", 0),
            StackFrame::Function(function) => {
                let label = &function.label;
                let module = label.module.and_then(|at| source.profile.modules.get(at as usize));
                let path = module.map_or("", |module| module.path.as_str());
                (&*label.name, label.file.as_deref(), label.line, path, label.offset)
            }
        };
        let mapping_index = self.mapping(module);
        let key = (mapping_index, name.to_owned(), offset);
        if let Some(number) = self.locations.get(&key) {
            return *number;
        }
        let line = line.map_or(0, i64::from);
        let function_index = next(&self.all.function_table);
        let function = Function {
            name_strindex: self.string(name),
            system_name_strindex: 0,
            filename_strindex: self.string(file.unwrap_or("")),
            start_line: line,
        };
        self.all.function_table.push(function);
        let number = next(&self.all.location_table);
        let lines = vec![Line { function_index, line, column: 0 }];
        let location = Location { mapping_index, address: offset, lines, ..Location::default() };
        self.all.location_table.push(location);
        self.locations.insert(key, number);
        number
    }

    fn stack(&mut self, source: &Source, frames: &[StackFrame<'_>]) -> i32 {
        // The innermost frame comes first.
        let locations: Vec<i32> =
            frames.iter().rev().map(|frame| self.location(source, frame)).collect();
        if let Some(number) = self.stacks.get(&locations) {
            return *number;
        }
        let number = next(&self.all.stack_table);
        self.all.stack_table.push(Stack { location_indices: locations.clone() });
        self.stacks.insert(locations, number);
        number
    }

    fn resource(&mut self, source: &Source) -> ResourceProfiles {
        let header = &source.profile.header;
        let samples = source.profile.stack_samples();
        let stacks: Vec<i32> =
            samples.iter().map(|sample| self.stack(source, &sample.frames)).collect();
        let mut profile = |kind: &str, unit: &str, value: fn(&StackSample<'_>) -> u64| {
            let each = stacks.iter().zip(&samples).filter(|(_, sample)| value(sample) > 0);
            let sample = |(stack, sample): (&i32, &StackSample<'_>)| Sample {
                stack_index: *stack,
                values: vec![i64::try_from(value(sample)).unwrap_or(i64::MAX)],
                ..Sample::default()
            };
            Profile {
                sample_type: Some(self.value_type(kind, unit)),
                samples: each.map(sample).collect(),
                time_unix_nano: header.started,
                duration_nano: (header.seconds.max(0.0) * 1e9) as u64,
                profile_id: identity(source, kind),
                ..Profile::default()
            }
        };
        let profiles = vec![
            profile("cpu", "nanoseconds", |sample| sample.nanoseconds),
            profile("calls", "count", |sample| sample.calls),
        ];
        let scope = InstrumentationScope {
            name: "fastinst".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..InstrumentationScope::default()
        };
        let scope_profiles = ScopeProfiles { scope: Some(scope), profiles, ..Default::default() };
        ResourceProfiles {
            resource: Some(resource(source)),
            scope_profiles: vec![scope_profiles],
            ..Default::default()
        }
    }
}

/// The process, with the attribute names of OpenTelemetry's conventions.
fn resource(source: &Source) -> Resource {
    let text = |key: &str, value: &str| attribute(key, Value::StringValue(value.to_owned()));
    let program = source.program();
    let attributes = vec![
        text("service.name", program),
        text("host.name", &source.host),
        text("process.executable.name", program),
        attribute("process.pid", Value::IntValue(source.profile.header.process.into())),
    ];
    Resource { attributes, ..Resource::default() }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..Default::default()
    }
}

/// A unique identity of a profile, in sixteen bytes: the same whenever the same build of this
/// command sends it.
fn identity(source: &Source, kind: &str) -> Vec<u8> {
    let header = &source.profile.header;
    let mut hasher = DefaultHasher::new();
    (&source.host, &header.command, header.process, kind, header.seconds.to_bits())
        .hash(&mut hasher);
    [header.started.to_be_bytes(), hasher.finish().to_be_bytes()].concat()
}
