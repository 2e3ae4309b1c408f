//! A script records programs that pages, workers, frames and node run, and sends their traces to
//! `wasm-aot record --serve`.

#[path = "command/place.rs"]
#[allow(dead_code, reason = "the tests of the command use more of it")]
mod place;

use place::{Place, errors};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use test_support::{Browser, View, eventually, require};
use whamm_record::{Options, Server, glue, record};

/// Adds values that the host returns and has written, and calls the host back in a call by the
/// host. Objects of the host are in a table that both change.
const PROGRAM: &str = r#"(module (import "host" "next" (func $next (param i32) (result i32)))
    (import "host" "object" (func $object (param externref) (result externref)))
    (memory (export "memory") 1) (table $objects (export "objects") 2 externref)
    (func (export "twice") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
    (func (export "run") (param $n i32) (result i32) (local $sum i32)
        (loop $l
            (local.set $sum (i32.add (local.get $sum)
                (i32.add (call $next (local.get $n)) (i32.load8_u (i32.const 16)))))
            (table.set $objects (i32.const 0) (call $object (table.get $objects (i32.const 1))))
            (local.set $sum (i32.add (local.get $sum)
                (ref.is_null (table.get $objects (i32.and (local.get $n) (i32.const 1))))))
            (br_if $l (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.get $sum)))"#;

/// Instantiates a module in each way that JavaScript has, each recorded separately; returns the
/// programs' results.
const ALL: &str = r#"globalThis.recordAll = async (bytes, count) => {
  const found = [];
  const run = (make) => {
    let exports;
    const next = (n) => {
      new Uint8Array(exports.memory.buffer)[16] = Math.floor(Math.random() * 256);
      return exports.twice(n) + Math.floor(Math.random() * 1000);
    };
    const object = (other) => {
      exports.objects.set(1, Math.random() < 0.5 ? null : { n: Math.random() });
      return other ?? (Math.random() < 0.5 ? globalThis : null);
    };
    const begin = (instance) => {
      exports = instance.exports;
      found.push(exports.run(count));
    };
    const made = make(Object.freeze({ host: Object.freeze({ next, object }) }));
    if (made instanceof WebAssembly.Instance) return begin(made);
    return made.then((made) => begin(made.instance ?? made));
  };
  await run((imports) => new WebAssembly.Instance(new WebAssembly.Module(bytes), imports));
  await run((imports) => WebAssembly.instantiate(bytes, imports));
  const module = await WebAssembly.compile(bytes);
  if (!(module instanceof WebAssembly.Module)) throw new Error("not a module");
  await run((imports) => WebAssembly.instantiate(module, imports));
  const response = new Response(bytes, { headers: { "Content-Type": "application/wasm" } });
  await run((imports) => WebAssembly.instantiateStreaming(response, imports));
  // Others are what they are.
  const other = new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));
  if (WebAssembly.Module.exports(other).length) throw new Error("it was exchanged");
  return found;
};
"#;

/// The server, a script that sends to it, and the program.
struct Pages {
    place: Place,
    server: Child,
    port: u16,
    token: String,
    module: Vec<u8>,
}

impl Pages {
    fn new(name: &str, limit: Option<u32>) -> Self {
        let place = Place::new(name);
        let module = wat::parse_str(PROGRAM).expect("a module");
        place.file("app.wasm", &module);
        let options = Options { name: "app".into(), ..Options::default() };
        let recording = record(&module, &options).expect("it can be recorded");
        // The port is free again; the test assumes that no other process takes it.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let token = "00112233445566778899aabbccddeeff".to_owned();
        let server = Server { port, token: token.clone() };
        place.file("glue.js", glue(&module, &recording.module, "app", &server));
        place.file("all.js", ALL);
        let serve = format!("record --serve {port} -o traces glue.js");
        let server = match limit {
            None => place.start(&serve.split(' ').collect::<Vec<_>>()),
            Some(blocks) => {
                let limited = format!("ulimit -f {blocks}; exec \"$0\" {serve}");
                let mut shell = Command::new("bash");
                shell.args(["-c", &limited, env!("CARGO_BIN_EXE_wasm-aot")]);
                shell.current_dir(&place.0).spawn().expect("a shell")
            }
        };
        eventually("the server listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { place, server, port, token, module }
    }

    /// The complete traces.
    fn whole(&self) -> Vec<String> {
        let files = fs::read_dir(self.place.0.join("traces")).expect("a folder");
        let names =
            files.map(|file| file.expect("a file").file_name().into_string().expect("text"));
        let mut whole: Vec<String> = names
            .map(|name| format!("traces/{name}"))
            .filter(|name| {
                let shown = self.place.run(&["trace", "show", name]);
                let text = String::from_utf8_lossy(&shown.stdout).into_owned();
                shown.status.success() && !text.contains("\n# the trace was cut off")
            })
            .collect();
        whole.sort();
        whole
    }

    /// Checks that each result belongs to a trace, whose replay yields it again.
    fn assert_recorded(&self, results: &[i64]) {
        eventually("the traces are whole", || self.whole().len() == results.len());
        let mut told: Vec<i64> = self
            .whole()
            .iter()
            .map(|trace| {
                let checked = self.place.good(&["replay", "--check", trace, "app.wasm"]);
                assert!(checked.ends_with("the program behaves as recorded\n"), "{checked}");
                let text = self.place.good(&["trace", "show", trace]);
                let last = text.lines().rfind(|line| line.starts_with("leave i32:"));
                let last = last.unwrap_or_else(|| panic!("{text}"));
                last["leave i32:".len()..].parse().expect("a number")
            })
            .collect();
        let mut results = results.to_vec();
        told.sort_unstable();
        results.sort_unstable();
        assert_eq!(told, results);
    }

    /// The server's answer to a request.
    fn said_to(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        text.lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn numbers(value: &serde_json::Value) -> Vec<i64> {
    let list = value.as_array().unwrap_or_else(|| panic!("{value}"));
    list.iter().map(|value| value.as_i64().expect("a number")).collect()
}

fn node(place: &Place, script: &str) -> Option<Command> {
    let mut there = Command::new("node");
    // Earlier versions support only one memory.
    there.args(["-e", "process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)"]);
    if !require(there.output().is_ok_and(|output| output.status.success()), "node 22") {
        return None;
    }
    let script = place.file("run.js", script);
    let mut node = Command::new("node");
    // Loading it twice has no further effect.
    node.args(["--no-warnings", "--require", "./glue.js", "--require", "./all.js"]);
    node.arg(script).current_dir(&place.0);
    Some(node)
}

const IN_NODE: &str = r#"
const fs = require("node:fs");
const { Worker } = require("node:worker_threads");
require("./glue.js");
(async () => {
  const bytes = fs.readFileSync("app.wasm");
  const found = await recordAll(bytes, 5000);
  // A worker has the script, too, and ends by itself.
  const text = `require("./all.js"); const bytes = require("node:fs").readFileSync("app.wasm");
    const { parentPort } = require("node:worker_threads");
    recordAll(bytes, 3).then((found) => parentPort.postMessage(found));`;
  const worker = new Worker(text, { eval: true, execArgv: ["--require", "./glue.js"] });
  worker.on("message", (more) => found.push(...more));
  worker.on("exit", () => {
    process.stdout.write(JSON.stringify(found), () => process.exit(3));
  });
})();"#;

#[test]
fn node_and_its_workers_are_recorded_until_they_exit() {
    let pages = Pages::new("recorded-node", None);
    let Some(mut node) = node(&pages.place, IN_NODE) else { return };
    let output = node.output().expect("node starts");
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    assert_eq!(errors(&output), "");
    let results = numbers(&serde_json::from_slice(&output.stdout).expect("JSON"));
    assert_eq!(results.len(), 8);
    pages.assert_recorded(&results);
}

#[test]
fn pages_their_workers_and_frames_are_recorded() {
    let pages = Pages::new("recorded-page", None);
    let place = &pages.place;
    let text = |name: &str| fs::read_to_string(place.0.join(name)).expect("it was written");
    let scripts = serde_json::json!([text("glue.js"), text("all.js")]).to_string();
    let scripts = scripts.replace("</", r"<\/");
    place.file(
        "frame.html",
        r#"<!doctype html><script src="glue.js"></script><script src="all.js"></script>
        <script>
            onmessage = async ({ data }) => {
                const found = await recordAll(data, 20);
                await WasmRecord.finish();
                parent.postMessage(found, "*");
            };
        </script>"#,
    );
    // A page that is a file may fetch nothing: it has the module inside.
    let page = format!(
        r#"<!doctype html><script src="glue.js"></script><script src="glue.js"></script>
        <script src="all.js"></script><iframe src="frame.html"></iframe>
        <script>
            globalThis.bytes = new Uint8Array({:?});
            globalThis.inPage = async () => {{
                const found = await recordAll(bytes, 20);
                await WasmRecord.finish();
                return found;
            }};
            const does = `onmessage = async ({{ data }}) => {{
                const found = await recordAll(data, 20);
                await WasmRecord.finish();
                postMessage(found);
            }}`;
            globalThis.inWorker = () => new Promise((done, fail) => {{
                const text = new Blob([...{scripts}, does], {{ type: "text/javascript" }});
                const worker = new Worker(URL.createObjectURL(text));
                worker.onmessage = (event) => done(event.data);
                worker.onerror = (event) => fail(new Error(event.message));
                worker.postMessage(bytes);
            }});
            globalThis.inFrame = () => new Promise((done) => {{
                onmessage = (event) => done(event.data);
                frames[0].postMessage(bytes, "*");
            }});
        </script>"#,
        pages.module
    );
    place.file("page.html", page);
    let Some(mut browser) = Browser::start() else { return };
    browser.open(&place.0.join("page.html"), View { width: 800, height: 600, dark: false });
    let mut results = Vec::new();
    for way in ["inPage()", "inWorker()", "inFrame()"] {
        results.extend(numbers(&browser.value(way)));
        assert!(browser.complaints().is_empty(), "{way}: {:?}", browser.complaints());
    }
    assert_eq!(results.len(), 12);
    pages.assert_recorded(&results);
}

#[test]
fn a_program_goes_on_where_no_recorder_is() {
    let mut pages = Pages::new("recorded-alone", None);
    let _ = (pages.server.kill(), pages.server.wait());
    let script = r#"const bytes = require("node:fs").readFileSync("app.wasm");
        recordAll(bytes, 2000).then((found) => console.log(JSON.stringify(found)));"#;
    let Some(mut node) = node(&pages.place, script) else { return };
    let output = node.output().expect("node starts");
    let told = errors(&output);
    assert!(output.status.success() && told.lines().count() == 1, "{told}");
    assert!(
        told.starts_with("record: no recorder ") && told.contains("the program goes on"),
        "{told}"
    );
    assert_eq!(numbers(&serde_json::from_slice(&output.stdout).expect("JSON")).len(), 4);
}

#[test]
fn a_program_goes_on_where_its_engine_does_not_compile_what_records_it() {
    let pages = Pages::new("recorded-older", None);
    // Earlier engines support only one memory.
    pages.place.file(
        "older.js",
        r#"const { Module, compile } = WebAssembly;
        const own = require("node:fs").readFileSync("app.wasm").length;
        const check = (bytes) => {
            if (bytes.length > own) throw new WebAssembly.CompileError("memory count of 4");
        };
        WebAssembly.Module = new Proxy(Module, {
            construct: (target, [bytes]) => (check(bytes), new target(bytes)),
        });
        WebAssembly.compile = async (bytes) => (check(bytes), compile.call(WebAssembly, bytes));"#,
    );
    let script = r#"const bytes = require("node:fs").readFileSync("app.wasm");
        recordAll(bytes, 20).then((found) => console.log(JSON.stringify(found)));"#;
    let Some(mut node) = node(&pages.place, script) else { return };
    let options = format!("--require {}", pages.place.0.join("older.js").display());
    let output = node.env("NODE_OPTIONS", options).output().expect("node starts");
    let told = errors(&output);
    assert!(output.status.success() && told.lines().count() == 1, "{told}");
    assert!(told.contains("does not compile the rewritten program (memory count of 4)"), "{told}");
    assert_eq!(numbers(&serde_json::from_slice(&output.stdout).expect("JSON")).len(), 4);
}

#[test]
fn a_full_disk_ends_the_traces_and_not_the_programs() {
    let pages = Pages::new("recorded-full", Some(64));
    let script = r#"const bytes = require("node:fs").readFileSync("app.wasm");
        recordAll(bytes, 20000).then((found) => console.log(JSON.stringify(found)));"#;
    let Some(mut node) = node(&pages.place, script) else { return };
    let output = node.output().expect("node starts");
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(numbers(&serde_json::from_slice(&output.stdout).expect("JSON")).len(), 4);
    let text = pages.place.good(&["trace", "show", "traces/app.r3"]);
    assert!(text.contains("\n# recording ended here: File too large"), "{text}");
}

#[test]
fn only_scripts_of_the_server_send_traces() {
    let pages = Pages::new("recorded-refused", None);
    let (port, token) = (pages.port, &pages.token);
    let post = |path: &str, host: &str, body: &str| {
        let len = body.len();
        pages.said_to(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len}\r\n\r\n{body}"
        ))
    };
    let own = format!("127.0.0.1:{port}");
    let path = |end: &str| format!("/{token}/{end}");
    for (path, host, status) in [
        ("/0123456789abcdef/app/1/0".to_owned(), &*own, "403 Forbidden"),
        (path("app/1/0"), "evil.example", "403 Forbidden"),
        (path("../1/0"), &own, "400 Bad Request"),
        (path("a.b/1/0"), &own, "400 Bad Request"),
        (path("app/1/x"), &own, "400 Bad Request"),
        (path("app"), &own, "404 Not Found"),
        ("/".into(), &own, "404 Not Found"),
    ] {
        assert_eq!(post(&path, host, "fi-trace"), format!("HTTP/1.1 {status}"), "{path}");
    }
    assert_eq!(pages.said_to("hello\r\n\r\n"), "HTTP/1.1 400 Bad Request");
    assert_eq!(fs::read_dir(pages.place.0.join("traces")).expect("a folder").count(), 0);
    // Bytes that are no trace are refused, and no more of them are accepted.
    assert_eq!(post(&path("app/2/0"), &own, "hello"), "HTTP/1.1 507 Insufficient Storage");
    assert_eq!(post(&path("app/2/5"), &own, "hello"), "HTTP/1.1 409 Conflict");
    let Pages { place, .. } = &pages;
    let port = port.to_string();
    let refused = place.bad(&["record", "--serve", &port, "glue.js"]).0;
    assert!(refused.contains("cannot listen on 127.0.0.1"), "{refused}");
    let refused = place.bad(&["record", "--serve", "0", "app.wasm"]);
    assert!(
        refused.0.contains("not a script of `whamm record --glue`") && refused.1 == 2,
        "{refused:?}"
    );
    assert!(Path::new(&place.0.join("traces/app.r3")).exists());
}
