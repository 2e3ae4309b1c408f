//! Destinations of a report other than a console: a file whose path is known, or one that
//! environment variables name.
//!
//! The environment is read when the first report is due; its variables have the names of version
//! 2.0.1.

use super::code::Emitter;
use super::support::{Outlet, Shape};
use crate::rewrite::Destination;
use wasm_encoder::{BlockType, ValType};

/// The type of a function of WASI that a report uses.
pub(crate) fn shape(name: &str) -> Shape {
    let (word, long) = (ValType::I32, ValType::I64);
    match name {
        "path_open" => (vec![word, word, word, word, word, long, long, word, word], vec![word]),
        "fd_write" => (vec![word; 4], vec![word]),
        "fd_prestat_dir_name" => (vec![word; 3], vec![word]),
        _ => (vec![word; 2], vec![word]),
    }
}

impl Destination {
    /// The WASI functions that a report needs for this destination, in addition to writing.
    pub(crate) fn imports(&self) -> &'static [&'static str] {
        match self {
            Self::File(_) => &["fd_prestat_dir_name", "fd_prestat_get", "path_open"],
            Self::Environment => &[
                "environ_get",
                "environ_sizes_get",
                "fd_prestat_dir_name",
                "fd_prestat_get",
                "path_open",
            ],
            _ => &[],
        }
    }
}

impl Emitter<'_> {
    /// Opens the destination before the first report.
    pub(crate) fn open_destination(&mut self, destination: &Destination) {
        let (open, environment) = match self.support.outlet() {
            Outlet::Own => ("open_own", "env_own"),
            Outlet::Lent(_) => ("open_lent", "env_lent"),
            Outlet::Kept | Outlet::Core(_) => return,
        };
        if destination.imports().is_empty() {
            return;
        }
        let opened = self.support.global(ValType::I32, 0);
        self.put().global_get(opened).i32_eqz();
        self.open_if(BlockType::Empty);
        self.put().i32_const(1).global_set(opened);
        let open = self.support.runtime(open);
        if let Destination::File(path) = destination {
            self.support.preset_path(path);
            self.put().call(open);
        } else {
            self.open_from(environment, open);
        }
        self.close();
    }

    fn open_from(&mut self, environment: &str, open: u32) {
        let [read, join, same] =
            [environment, "join", "str_eq"].map(|name| self.support.runtime(name));
        self.put().call(read);
        self.variable_of_environment("TO_CONSOLE", "");
        self.literal("true");
        self.put().call(same).i32_eqz();
        self.open_if(BlockType::Empty);
        self.variable_of_environment("WHAMM_OUTDIR", "output/whamm_core");
        self.variable_of_environment("WHAMM_OUTFILE", "whamm.out");
        self.put().call(join).call(open);
        self.close();
    }

    /// Pushes the value of an environment variable.
    fn variable_of_environment(&mut self, name: &str, otherwise: &str) {
        self.literal(name);
        self.literal(otherwise);
        let find = self.support.runtime("env_or");
        self.put().call(find);
    }

    fn literal(&mut self, text: &str) {
        let at = self.support.text(text);
        self.put().i32_const(at.cast_signed()).i32_const(i32::try_from(text.len()).unwrap_or(0));
    }
}
