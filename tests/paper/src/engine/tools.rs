//! The tools that make and run modules: Python packages, installed by name and version into a
//! folder of the experiment.

use super::peer::Peer;
use crate::corpus::{Corpus, CorpusError, is_there};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The C and C++ compiler for WebAssembly, and the peer of the same generation of Cranelift
/// (0.135).
const PACKAGES: [&str; 2] = ["ziglang==0.17.0", "wasmtime==48.0.0"];

/// The scripts that the peers run.
const SCRIPTS: [(&str, &str); 3] = [
    ("wasmtime_peer.py", include_str!("../../corpus/engines/wasmtime_peer.py")),
    ("node_peer.mjs", include_str!("../../corpus/engines/node_peer.mjs")),
    ("wasi.c", include_str!("../../corpus/engines/wasi.c")),
];

/// The tools, and the folder that they work in.
#[derive(Debug)]
pub(crate) struct Tools {
    this: PathBuf,
    folder: PathBuf,
    /// Whether these peers are installed.
    node: bool,
    wasm2c: bool,
}

impl Tools {
    pub(crate) fn prepare(corpus: &Corpus, install_peers: bool) -> Result<Self, CorpusError> {
        if install_peers {
            for package in [("node", "nodejs"), ("wasm2c", "wabt")]
                .into_iter()
                .filter(|(tool, _)| !is_there(tool))
                .map(|(_, package)| package)
            {
                eprintln!("engine: installing {package}");
                let _ = Command::new("apt-get")
                    .args(["install", "-y", "-qq", "--no-install-recommends", package])
                    .output();
            }
        }
        let folder = corpus.folder().join("engine");
        std::fs::create_dir_all(&folder).map_err(CorpusError::io(folder.display().to_string()))?;
        for (name, text) in SCRIPTS {
            write(&folder.join(name), text)?;
        }
        let this = std::env::current_exe().map_err(CorpusError::io("this program's own file"))?;
        let tools = Self { this, folder, node: is_there("node"), wasm2c: is_there("wasm2c") };
        tools.install()?;
        tools.borrow_headers()?;
        Ok(tools)
    }

    /// Installs missing packages.
    fn install(&self) -> Result<(), CorpusError> {
        let place = self.folder.join("python");
        let list = place.join(format!("{}.installed", PACKAGES.join(",")));
        if list.exists() {
            return Ok(());
        }
        let done = |command: &mut Command| {
            let output = command.output().map_err(CorpusError::io("python3"))?;
            let said = || {
                String::from_utf8_lossy(&output.stderr)
                    .lines()
                    .last()
                    .unwrap_or("it said nothing")
                    .to_owned()
            };
            if output.status.success() {
                return Ok(());
            }
            let what =
                format!("installing {} with python3 -m venv and pip", PACKAGES.join(" and "));
            Err(CorpusError::Failed { what, said: said() })
        };
        done(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        done(Command::new(self.python()).args(["-m", "pip", "install", "-q"]).args(PACKAGES))?;
        std::fs::write(&list, "").map_err(CorpusError::io(list.display().to_string()))
    }

    /// Makes the system's platform-independent headers available.
    fn borrow_headers(&self) -> Result<(), CorpusError> {
        let headers = self.folder.join("include/nlohmann");
        if headers.exists() {
            return Ok(());
        }
        std::fs::create_dir_all(self.folder.join("include")).map_err(CorpusError::io("include"))?;
        std::os::unix::fs::symlink("/usr/include/nlohmann", &headers)
            .map_err(CorpusError::io(headers.display().to_string()))
    }

    /// The peers to measure, in turn.
    pub(super) fn peers(&self) -> Vec<Peer> {
        let optional = [(Peer::Node, self.node), (Peer::Wasm2c, self.wasm2c)];
        let present = optional.into_iter().filter(|(_, is_there)| *is_there).map(|(peer, _)| peer);
        [Peer::Wasmtime, Peer::WasmAot, Peer::NoSpectre].into_iter().chain(present).collect()
    }

    /// The names of missing peers.
    pub(super) fn missing(&self) -> impl Iterator<Item = &'static str> {
        let peers = self.peers();
        [Peer::Node, Peer::Wasm2c]
            .into_iter()
            .filter(move |peer| !peers.contains(peer))
            .map(Peer::name)
    }

    /// The product's command, if it was built with this program.
    pub(crate) fn command(&self) -> Option<PathBuf> {
        Some(self.this.parent()?.join("wasm-aot")).filter(|command| command.exists())
    }

    /// A module as a native program by way of C: an executable, which is made if needed.
    pub(super) fn wasm2c(&self, module: &Path, made: &Path) -> Result<(), CorpusError> {
        let age = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
        if age(made) > age(module) && age(made) > age(&self.script("wasi.c")) {
            return Ok(());
        }
        let source = module.with_extension("c");
        let done = |command: &mut Command, what: &str| {
            let output = command.output().map_err(CorpusError::io(what))?;
            let said = || {
                String::from_utf8_lossy(&output.stderr)
                    .lines()
                    .next()
                    .unwrap_or("it said nothing")
                    .to_owned()
            };
            if output.status.success() {
                Ok(())
            } else {
                Err(CorpusError::Failed { what: what.into(), said: said() })
            }
        };
        done(
            Command::new("wasm2c").arg(module).args(["-n", "program", "-o"]).arg(&source),
            "wasm2c",
        )?;
        let mut compiler = Command::new("gcc");
        compiler
            .args(["-O2", "-w", "-I"])
            .arg(&self.folder)
            .arg(format!("-DMODULE=\"{}\"", module.with_extension("h").display()));
        compiler
            .arg(self.script("wasi.c"))
            .arg(&source)
            .args(["-lwasm-rt-impl", "-lm", "-o"])
            .arg(made);
        done(&mut compiler, "gcc of what wasm2c made")
    }

    /// This program, which is also the process that runs the product.
    pub(super) fn this(&self) -> &Path {
        &self.this
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.folder.join("python/bin/python3")
    }

    pub(super) fn script(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Whether node supports several memories.
    pub(crate) fn knows_memories(&self) -> bool {
        let mut asks = Command::new("node");
        asks.args(["-e", "process.exit(parseInt(process.versions.node) < 22 ? 1 : 0)"]);
        self.node && asks.output().is_ok_and(|output| output.status.success())
    }

    /// The file in which a process writes its figures.
    pub(super) fn figures(&self) -> PathBuf {
        self.folder.join("figures.json")
    }

    /// A compiler for WebAssembly.
    pub(crate) fn compiler(&self, is_cpp: bool) -> Command {
        let mut command = Command::new(self.python());
        command.args(["-m", "ziglang", if is_cpp { "c++" } else { "cc" }]);
        command.args(["--target=wasm32-wasi", "-O2", "-w", "-Wl,--strip-debug"]);
        if is_cpp {
            command.arg("-isystem").arg(self.folder.join("include"));
        }
        command
    }
}

/// Writes a file if it is missing: rewriting it would cause a rebuild.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CorpusError> {
    if std::fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    std::fs::write(path, text).map_err(CorpusError::io(path.display().to_string()))
}
