//! Tools that fleets use read the exported files: DuckDB, and Prometheus's parser.

use fastinst_export::{Source, openmetrics, otlp, parquet};
use profiler::{Figure, Function, Header, How, Module, Profile, bucket};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use test_support::{Folder, require};

/// A Python that has these modules, as scripts/test installs them.
fn python(modules: &str) -> Option<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/python/bin/python3");
    let has = |python: &PathBuf| {
        let import = Command::new(python).args(["-c", &format!("import {modules}")]).output();
        import.is_ok_and(|output| output.status.success())
    };
    let found = [PathBuf::from("python3"), ours].into_iter().find(has);
    require(found.is_some(), modules);
    found
}

/// The output of a Python program, as JSON.
fn told(python: &Path, program: &str, arguments: &[&Path]) -> Value {
    let output = Command::new(python).arg("-c").arg(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A process with this many functions, each with twice the CPU time of the one before it.
fn source(host: &str, process: i32, functions: u32) -> Source {
    let function = |number: u32| -> Function {
        let calls = 100.0 * f64::from(number % 50 + 1);
        let mut histogram = profiler::Histogram::default();
        histogram.add(bucket(1000), calls * 0.95);
        histogram.add(bucket(2_000_000 + u64::from(number)), calls * 0.05);
        serde_json::from_value(json!({
            "id": number + 1,
            "label": { "name": format!("space::f{number}(\"a\\b\")"), "module": 0, "offset": number },
            "calls": Figure::exact(calls),
            "samples": 400,
            "min": 900.0,
            "max": 3e6,
            "mean": Figure { value: 1e5, how: How::Estimated { lo: 9e4, hi: 1.1e5 } },
            "total": Figure::exact(2e6 * f64::from(number + 1)),
            "self": if number == 1 { json!(null) } else { json!(Figure::exact(1e6 * f64::from(number + 1))) },
            "lost": 0,
            "histogram": histogram,
        }))
        .unwrap()
    };
    let header = Header {
        command: vec!["/usr/bin/app".to_owned(), "-x".to_owned()],
        process,
        processes: 1,
        started: 1_700_000_000_000_000_000,
        seconds: 60.0,
        processor: 30.0,
        hz: 1e9,
        step: 1,
        ..Header::default()
    };
    let modules = vec![Module { path: "/usr/bin/app".to_owned(), build_id: String::new() }];
    let functions = (0..functions).map(function).collect();
    Source {
        host: host.to_owned(),
        profile: Profile { header, modules, functions, stacks: Vec::new() },
    }
}

#[test]
fn duckdb_reads_every_column_and_the_documented_queries_give_sums() {
    let Some(python) = python("duckdb") else { return };
    let folder = Folder::new("fleet");
    let file = folder.join("a.parquet");
    std::fs::write(&file, parquet(&[source("one", 7, 3), source("two", 8, 3)])).unwrap();
    std::fs::write(folder.join("none.parquet"), parquet(&[source("three", 9, 0)])).unwrap();
    let read = "import duckdb, json, sys\n\
                rows = duckdb.sql(f\"SELECT * FROM '{sys.argv[1]}' ORDER BY host, function\")\n\
                print(json.dumps([dict(zip(rows.columns, row)) for row in rows.fetchall()], default=str))";
    let rows = told(&python, read, &[&file]);
    assert_eq!(rows.as_array().unwrap().len(), 6);
    let (first, second) = (&rows[0], &rows[1]);
    let wanted = json!({
        "host": "one", "program": "app", "command": "/usr/bin/app -x", "process": 7, "module": "/usr/bin/app",
        "function": "space::f0(\"a\\b\")", "calls": 100.0, "timed": 400, "self_ns": 1e6, "total_ns": 2e6,
        "mean_low_ns": 9e4, "mean_high_ns": 1.1e5, "wall_ns": null, "line": 0, "p99_ns": rows[0]["p99_ns"],
        "started": "2023-11-14 22:13:20", "until": "2023-11-14 22:14:20", "histogram_calls": [95.0, 5.0],
    });
    for (column, value) in wanted.as_object().unwrap() {
        assert_eq!(&first[column], value, "{column}: {first}");
    }
    assert!(first["p99_ns"].as_f64().is_some_and(|p99| p99 > 1.9e6), "{first}");
    let ends = first["histogram_ns"].as_array().unwrap();
    assert!(ends[0].as_f64().unwrap() > 1000.0 && ends[1].as_f64().unwrap() > 2e6, "{first}");
    assert!(second["self_ns"].is_null(), "{second}");
    let queries = include_str!("../../../docs/fleets.md").split("```sql\n").skip(1);
    let queries: Vec<&str> = queries.map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(queries.len() >= 4);
    for query in queries {
        let query = query.replace("profiles/", &format!("{}/", folder.display()));
        let ask = format!(
            "import duckdb, json\nrows = duckdb.sql({})\nprint(json.dumps([list(row) for row in rows.fetchall()], default=str))",
            json!(query)
        );
        let rows = told(&python, &ask, &[]);
        assert!(!rows.as_array().unwrap().is_empty(), "{query}");
        if query.contains("cpu_seconds") {
            assert_eq!(
                (&rows[0][0], &rows[0][1]),
                (&json!("space::f2(\"a\\b\")"), &json!(0.006)),
                "{query}"
            );
        }
        if query.contains("AS p99_us") {
            assert!(
                rows[0][1].as_f64().is_some_and(|p99| (1900.0..2600.0).contains(&p99)),
                "{rows}"
            );
        }
    }
}

#[test]
fn a_row_takes_few_bytes() {
    let bytes = parquet(&[source("one", 7, 10_000)]).len();
    println!("{bytes} bytes for 10 000 functions");
    assert!(bytes < 10_000 * 60, "{bytes}");
}

#[test]
fn prometheus_parses_every_sample() {
    let Some(python) = python("prometheus_client") else { return };
    let folder = Folder::new("metrics");
    let file = folder.join("metrics");
    let mut twice = source("one", 7, 3);
    twice.profile.functions[2].label.name = twice.profile.functions[0].label.name.clone();
    std::fs::write(&file, openmetrics(&[twice])).unwrap();
    let parse = "import json, sys\n\
        from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse\n\
        families = parse(open(sys.argv[1]).read())\n\
        print(json.dumps({f.name: [[s.name, s.labels, s.value] for s in f.samples] for f in families}))";
    let told = told(&python, parse, &[&file]);
    let calls = told["fastinst_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 3, "{told}");
    let of_first = calls.iter().find(|sample| sample[2] == 100.0).unwrap();
    assert_eq!(of_first[1]["function"], "space::f0(\"a\\b\")");
    assert_eq!(told["fastinst_self_seconds"].as_array().unwrap().len(), 2);
    let buckets = told["fastinst_call_duration_seconds"].as_array().unwrap();
    let bucket =
        |end: &str| buckets.iter().find(|sample| sample[1]["le"] == end).unwrap()[2].as_f64();
    assert_eq!(
        (bucket("1e-05"), bucket("0.01"), bucket("+Inf")),
        (Some(95.0), Some(100.0), Some(100.0))
    );
}

#[test]
fn otlp_has_each_stack_once_with_times_and_calls_of_all_sources() {
    use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceRequest;
    use prost::Message;
    let sources = [source("one", 7, 3), source("two", 8, 3)];
    let request = ExportProfilesServiceRequest::decode(&*otlp(&sources)).expect("a request");
    let dictionary = request.dictionary.expect("a dictionary");
    // Index 0 of each table is empty, and entries that both machines share occur once: three
    // functions, and time that belongs to no function.
    assert_eq!(
        (dictionary.location_table.len(), dictionary.mapping_table.len()),
        (1 + 3 + 1, 1 + 1)
    );
    assert!(dictionary.stack_table[0].location_indices.is_empty());
    let string = |number: i32| dictionary.string_table[number as usize].as_str();
    assert_eq!(request.resource_profiles.len(), sources.len());
    for (resource, source) in request.resource_profiles.iter().zip(&sources) {
        let host =
            resource.resource.as_ref().expect("a resource").attributes.iter().any(|attribute| {
                attribute.key == "host.name"
                    && format!("{:?}", attribute.value).contains(&source.host)
            });
        assert!(host, "{resource:?}");
        let [cpu, calls] = &resource.scope_profiles[0].profiles[..] else { panic!("two profiles") };
        let kind = |profile: &opentelemetry_proto::tonic::profiles::v1development::Profile| {
            let kind = profile.sample_type.expect("a kind");
            (string(kind.type_strindex).to_owned(), string(kind.unit_strindex).to_owned())
        };
        assert_eq!(kind(cpu), ("cpu".into(), "nanoseconds".into()));
        assert_eq!(kind(calls), ("calls".into(), "count".into()));
        let sum = |samples: &[opentelemetry_proto::tonic::profiles::v1development::Sample]| {
            samples.iter().flat_map(|sample| &sample.values).sum::<i64>()
        };
        assert_eq!(sum(&calls.samples), 100 + 200 + 300);
        assert_eq!((cpu.profile_id.len(), cpu.duration_nano), (16, 60_000_000_000));
        assert_ne!(cpu.profile_id, calls.profile_id);
        let innermost = |stack: i32| {
            let location = dictionary.stack_table[stack as usize].location_indices[0] as usize;
            let line = dictionary.location_table[location].lines[0];
            string(dictionary.function_table[line.function_index as usize].name_strindex)
        };
        let named =
            cpu.samples.iter().filter(|sample| !innermost(sample.stack_index).starts_with('['));
        let slowest = named.max_by_key(|sample| sample.values[0]).expect("samples");
        assert!(innermost(slowest.stack_index).starts_with("space::f2"));
    }
}
