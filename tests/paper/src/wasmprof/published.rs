//! The thesis' tables: sizes, compilation and running, by the group of programs.

/// A group of programs, in the thesis' averages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Published {
    /// Bytes of the module, profiled and as it is (table 6.1).
    pub(super) size: f64,
    /// The same for compiling, in Firefox (6.2).
    pub(super) compile: f64,
    /// The same for running, in Chrome, which has node's engine (6.3).
    pub(super) run: f64,
}

const MATH: Published = Published { size: 212.0 / 110.8, compile: 45.32 / 4.82, run: 111.2 / 81.5 };
const IMAGE: Published = Published { size: 212.7 / 111.3, compile: 46.37 / 4.81, run: 92.4 / 91.7 };
/// A console's emulator; its counterpart here is a loop that resembles a game's.
const GAME: Published = Published { size: 79.8 / 35.4, compile: 16.35 / 6.24, run: 5114.0 / 107.8 };

/// The published values for programs of the same kind.
pub(super) fn of(program: &str) -> Option<Published> {
    match program.split_once('-').map_or(program, |(kind, _)| kind) {
        "multiply" | "sum" => Some(MATH),
        "quicksort" if program != "quicksort" => Some(MATH),
        "image" => Some(IMAGE),
        "game" => Some(GAME),
        _ => None,
    }
}

pub(super) const NOTE: &str = "Beside rows of programs of the thesis' kinds are its own figures: \
    averages of simple mathematics, of images, and of a console's emulator; its compilation is \
    that of Firefox 67, its running that of Chrome 74. In Firefox running took 1.74, 1.08 and 121 \
    times as long; with Wasabi's profiler 4.1, 2.4 and 147 times in Firefox, 11.7, 5.3 and 184 times in \
    Chrome, and modules were 1.97, 1.97 and 1.98 times as large.";
