//! Profiles and metrics sent to servers: Prometheus scrapes native histograms, and test servers
//! read the requests for the other services by the published formats.

use profiler::{Packing, Profile};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use test_support::{Folder, eventually, is_there, require};

/// A profile of two functions: `fast` with 950 calls of 1 µs and 50 of 1 ms, called by `main`.
fn profile(folder: &Path) -> PathBuf {
    let mut histogram = profiler::Histogram::default();
    histogram.add(profiler::bucket(1_000), 950.0);
    histogram.add(profiler::bucket(1_000_000), 50.0);
    let exact = |value: f64| json!(profiler::Figure::exact(value));
    let function = |id: u32, name: &str, calls: f64, own: f64, histogram: Value| {
        json!({
            "id": id,
            "label": { "name": name, "module": 0, "offset": 16 * id, "file": "app.c", "line": id },
            "calls": exact(calls), "samples": 1000, "min": 1e3, "max": 1e6, "mean": exact(51e3),
            "total": exact(own), "self": exact(own), "lost": 0, "histogram": histogram,
        })
    };
    let profile = json!({
        "header": {
            "command": ["/usr/bin/app"], "process": 7, "parent": 1, "processes": 1,
            "started": 1_700_000_000_000_000_000_u64, "seconds": 60.0, "processor": 0.06,
            "policy": "exact", "hz": 1e9, "step": 1, "bias": 0.0, "pair": 0.0, "machine": "",
            "spent": {
                "probes": 2, "toggles": 0, "samples": 1000, "switching": 0.0, "agent": 0.0,
                "lost": 0,
            },
            "notes": [],
        },
        "modules": [{ "path": "/usr/bin/app", "build_id": "" }],
        "functions": [
            function(1, "main", 1.0, 9e6, json!([])),
            function(2, "fast", 1000.0, 51e6, json!(histogram)),
        ],
        "stacks": [{ "frames": [0, 1], "time": 51e6, "samples": 51 }],
    });
    let profile: Profile = serde_json::from_value(profile).expect("a profile");
    let file = folder.join("app.profile");
    std::fs::write(&file, profile.to_bytes(Packing::Deflated)).expect("written");
    file
}

fn export(options: &[&str], profile: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fastinst"));
    command.arg("export").args(options).args(["--host", "h1"]).arg(profile);
    command
}

/// A process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The body of a server's answer.
fn get(address: &str, path: &str, accept: &str) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: {accept}\r\n\r\n").ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let body = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    Some(answer[body + 4..].to_vec())
}

#[test]
fn a_port_in_use_is_named() {
    let folder = Folder::new("fleet-port");
    let kept = profile(&folder);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = export(&["--format", "openmetrics", "--listen", &address], &kept).output();
    let output = output.expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
}

#[test]
fn prometheus_scrapes_native_histograms() {
    if !require(is_there("prometheus"), "prometheus") {
        return;
    }
    let folder = Folder::new("fleet-prometheus");
    let kept = profile(&folder);
    let mut served = export(&["--format", "openmetrics", "--listen", "127.0.0.1:0"], &kept);
    let mut served = Running(served.stderr(Stdio::piped()).spawn().expect("it starts"));
    let mut line = String::new();
    let stderr = served.0.stderr.take().expect("piped");
    BufReader::new(stderr).read_line(&mut line).expect("a line");
    let exporter = line.split(['/', ';']).nth(2).expect("an address").to_owned();
    let text = get(&exporter, "/metrics", "text/plain").expect("an answer");
    assert!(String::from_utf8_lossy(&text).ends_with("# EOF\n"));
    // A port that is free now.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port");
    let config = folder.join("prometheus.yml");
    let scrape = format!(
        "scrape_configs:\n- job_name: fastinst\n  scrape_interval: 1s\n  static_configs:\n\
         \x20 - targets: ['{exporter}']\n"
    );
    std::fs::write(&config, scrape).expect("written");
    let _prometheus = Running(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={port}"))
            .arg("--enable-feature=native-histograms")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts"),
    );
    let ask = |query: &str| -> Option<f64> {
        let path = format!("/api/v1/query?query={query}");
        let answer: Value = serde_json::from_slice(&get(&port.to_string(), &path, "*/*")?).ok()?;
        answer["data"]["result"][0]["value"][1].as_str()?.parse().ok()
    };
    let calls = "fastinst_calls_total%7Bfunction=%22fast%22%7D";
    eventually("prometheus has scraped", || ask(calls) == Some(1000.0));
    let of = |function: &str| {
        ask(&format!("{function}fastinst_call_duration_seconds%7Bfunction=%22fast%22%7D)"))
            .unwrap_or_else(|| panic!("no answer to {function}"))
    };
    assert_eq!(of("histogram_count("), 1000.0);
    // Buckets are a twelfth wide.
    let (median, last) = (of("histogram_quantile(0.5,"), of("histogram_quantile(0.99,"));
    assert!((0.9e-6..1.1e-6).contains(&median), "{median}");
    assert!((0.9e-3..1.1e-3).contains(&last), "{last}");
    let sum = of("histogram_sum(");
    assert!((sum - 0.051).abs() < 1e-9, "{sum}");
}

/// A request, as received by a server.
struct Request {
    line: String,
    kind: String,
    body: Vec<u8>,
}

/// A server that answers one request.
fn receiver(status: &'static str) -> (String, JoinHandle<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound").to_string();
    let served = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).expect("a line");
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let value = |name: &str| {
            let line = head.iter().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().trim().to_owned()
        };
        let mut body = vec![0; value("Content-Length:").parse().expect("a length")];
        reader.read_exact(&mut body).expect("the body");
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 7\r\n\r\nsorry\r\n");
        reader.into_inner().write_all(answer.as_bytes()).expect("answered");
        Request { line: head[0].clone(), kind: value("Content-Type:"), body }
    });
    (address, served)
}

/// Decodes base64 digits.
fn decoded(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.trim_end_matches('=').bytes().collect();
    let bytes = digits.chunks(4).flat_map(|four| {
        let bits = four.iter().fold(0, |bits, byte| bits << 6 | digit(*byte));
        let bits = bits << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    });
    bytes.collect()
}

#[test]
fn pyroscope_and_parca_are_sent_profiles_of_pprof_as_their_services_take_them() {
    let folder = Folder::new("fleet-push");
    let kept = profile(&folder);
    for (format, path, program, labels) in [
        ("pyroscope", "/push.v1.PusherService/Push", "service_name", "/series/0/labels"),
        ("parca", "/profiles/writeraw", "job", "/series/0/labels/labels"),
    ] {
        let (address, served) = receiver("200 OK");
        let url = format!("http://{address}");
        let output =
            export(&["--format", format, "--push", &url], &kept).output().expect("it runs");
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
        let request = served.join().expect("a request");
        assert_eq!(request.line, format!("POST {path} HTTP/1.1"));
        assert_eq!(request.kind, "application/json");
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let labels = body.pointer(labels).and_then(Value::as_array).expect("labels");
        for (name, value) in [("__name__", "process_cpu"), (program, "app"), ("host", "h1")] {
            assert!(labels.contains(&json!({ "name": name, "value": value })), "{body}");
        }
        let raw = body["series"][0]["samples"][0]["rawProfile"].as_str().expect("a profile");
        let gzip = folder.join(format!("{format}.pb.gz"));
        std::fs::write(&gzip, decoded(raw)).expect("written");
        let plain = Command::new("gzip").arg("-dc").arg(&gzip).output().expect("gzip runs");
        let own = Command::new(env!("CARGO_BIN_EXE_fastinst"))
            .args(["report", "--format", "pprof"])
            .arg(&kept)
            .output()
            .expect("it runs");
        assert!(plain.status.success() && plain.stdout == own.stdout, "{format}");
    }
}

#[test]
fn a_server_that_refuses_or_is_not_there_is_named() {
    let folder = Folder::new("fleet-refused");
    let kept = profile(&folder);
    let said = |url: &str, code: i32| {
        let output = export(&["--format", "otlp", "--push", url], &kept).output().expect("it runs");
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let (address, served) = receiver("429 Too Many Requests");
    let text = said(&format!("http://{address}"), 1);
    assert!(text.contains("refused the profile: 429 Too Many Requests: sorry"), "{text}");
    let request = served.join().expect("a request");
    assert_eq!(request.line, "POST /v1development/profiles HTTP/1.1");
    assert_eq!(request.kind, "application/x-protobuf");
    let file = folder.join("app.otlp");
    let written = export(&["--format", "otlp", "-o", &file.display().to_string()], &kept);
    assert!({ written }.status().expect("it runs").success());
    assert_eq!(std::fs::read(&file).expect("written"), request.body);
    assert!(said(&format!("http://{address}"), 1).contains("is a server running there?"));
    assert!(said("https://example.org", 2).contains("https is not supported"));
    for none in ["example.org:4318", "http://", "http://:4318", "http://a b/", "http://u@h:1/"] {
        assert!(said(none, 2).contains("expected http://HOST:PORT"), "{none}");
    }
    for port in ["", "0", "99999", "9?x=1"] {
        let text = said(&format!("http://127.0.0.1:{port}"), 2);
        assert!(text.contains("a port is a number from 1 to 65535"), "{text}");
    }
    let text = said("http://[::1]:1/", 1);
    assert!(text.contains("http://[::1]:1/v1development/profiles"), "{text}");
}
