//! `wasm-aot wast`

use super::{Failure, Making, complain, print, read};
use clap::Args;
use std::path::PathBuf;
use wasm_aot::script;

/// Run .wast scripts of the specification's test suite
#[derive(Debug, Args)]
pub(crate) struct Wast {
    /// The scripts
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    making: Making,
}

impl Wast {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let engine = self.making.engine()?;
        let (mut passed, mut failed) = (0, 0);
        let mut rows = Vec::new();
        for file in &self.files {
            let text = String::from_utf8(read(file)?)
                .map_err(|_| Failure::new(format!("{}: not text", file.display())))?;
            let outcome = script::run(&engine, &text).map_err(super::about(file))?;
            for failure in &outcome.failed {
                complain(format!("{}:{}: {}", file.display(), failure.line, failure.message));
            }
            if !self.json {
                print(format!(
                    "{}: {} passed, {} failed\n",
                    file.display(),
                    outcome.passed,
                    outcome.failed.len()
                ))?;
            }
            rows.push(serde_json::json!({
                "file": file, "passed": outcome.passed, "failed": outcome.failed.len(),
            }));
            passed += outcome.passed;
            failed += outcome.failed.len();
        }
        print(match self.json {
            true => format!(
                "{}\n",
                serde_json::json!({ "passed": passed, "failed": failed, "files": rows })
            ),
            false => format!("{passed} passed, {failed} failed\n"),
        })?;
        if failed == 0 { Ok(()) } else { Err(Failure::silent(1)) }
    }
}
