//! A headless browser, for pages and drawings. It is controlled through a pipe, by the protocol of
//! its developer tools.

use crate::{Folder, PATIENCE, skip};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// The command of Debian's headless package, and other names of the same browser.
const NAMES: [&str; 4] =
    ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"];

/// The properties of the view.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The width in pixels.
    pub width: u32,
    /// See `width`.
    pub height: u32,
    /// Whether the reader prefers dark pages.
    pub dark: bool,
}

/// A browser with one page.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    asks: ChildStdin,
    answers: Receiver<Value>,
    asked: u64,
    session: String,
    complaints: Vec<String>,
    requests: Vec<String>,
    _profile: Folder,
}

impl Browser {
    /// Starts a browser with an empty page; if none is installed, the test is [skipped](skip).
    ///
    /// # Panics
    /// If an installed browser does not answer.
    pub fn start() -> Option<Self> {
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
        let Some(name) = NAMES.into_iter().find(|name| is_there(name)) else {
            skip("chromium-headless-shell is missing: scripts/test installs it");
            return None;
        };
        let profile = Folder::new("browser");
        // It reads from descriptor 3 and writes to descriptor 4.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>&1", name])
            .args(["--headless", "--no-sandbox", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--remote-debugging-pipe", "--enable-unsafe-swiftshader"])
            .arg(format!("--user-data-dir={}", profile.display()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (asks, said) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (told, answers) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(said).split(0).map_while(Result::ok) {
                let message = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if told.send(message).is_err() {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            asks,
            answers,
            asked: 0,
            session: String::new(),
            complaints: Vec::new(),
            requests: Vec::new(),
            _profile: profile,
        };
        let page = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let page = json!({ "targetId": page["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", &page);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for part in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{part}.enable"), &json!({}));
        }
        Some(browser)
    }

    /// Sends a request, and waits for the answer; events meanwhile are recorded.
    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": parameters });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.asks.write_all(&bytes).unwrap();
        loop {
            let message = self.next(method);
            if message["id"] == self.asked {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    fn next(&mut self, waiting_for: &str) -> Value {
        let message = self.answers.recv_timeout(PATIENCE);
        let message = message.unwrap_or_else(|error| panic!("{waiting_for}: {error}"));
        let told = &message["params"];
        match message["method"].as_str().unwrap_or("") {
            "Network.requestWillBeSent" => {
                self.requests.push(told["request"]["url"].as_str().unwrap_or("?").to_owned());
            }
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                self.complaints.push(told.to_string());
            }
            _ => {}
        }
        message
    }

    /// Shows a file.
    ///
    /// # Panics
    /// If it does not load.
    pub fn open(&mut self, file: &Path, view: View) {
        self.open_at(file, "", view);
    }

    /// Shows a file, with `end` appended to its address.
    ///
    /// # Panics
    /// If it does not load.
    pub fn open_at(&mut self, file: &Path, end: &str, view: View) {
        let View { width, height, dark } = view;
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.ask("Emulation.setEmulatedMedia", &features);
        let file = file.canonicalize().unwrap();
        let url = format!("file://{}{end}", file.display());
        let loaded = self.ask("Page.navigate", &json!({ "url": url }));
        assert!(loaded["errorText"].is_null(), "{url}: {loaded}");
        while self.next("Page.loadEventFired")["method"] != "Page.loadEventFired" {}
    }

    /// The value of an expression in the page; promises are awaited.
    ///
    /// # Panics
    /// If it throws.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let answer = self.ask("Runtime.evaluate", &asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// A screenshot, as PNG.
    ///
    /// # Panics
    /// If the browser returns something else.
    pub fn picture(&mut self) -> Vec<u8> {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let picture = self.ask("Page.captureScreenshot", &json!({ "format": "png" }));
        let text = picture["data"].as_str().unwrap_or("").trim_end_matches('=');
        let value = |letter: u8| LETTERS.iter().position(|known| *known == letter).unwrap() as u32;
        let four = |letters: &[u8]| {
            let bits = letters.iter().fold(0, |bits, letter| bits << 6 | value(*letter));
            let bytes = (bits << (6 * (4 - letters.len()))).to_be_bytes();
            bytes[1..letters.len()].to_vec()
        };
        text.as_bytes().chunks(4).flat_map(four).collect()
    }

    /// Exceptions, and what was written to the console.
    pub fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// The addresses of all requests, the page's own included.
    pub fn requests(&self) -> &[String] {
        &self.requests
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A browser that is killed leaves processes behind that write to its profile for a while.
        // It ends them itself when it is told to close, and then closes the pipe.
        let close = format!("{}\0", json!({ "id": self.asked + 1, "method": "Browser.close" }));
        if self.asks.write_all(close.as_bytes()).is_ok() {
            while self.answers.recv_timeout(PATIENCE).is_ok() {}
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
