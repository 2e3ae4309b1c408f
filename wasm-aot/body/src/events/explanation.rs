//! One-line explanations of variables and modes, for help texts.

use super::{Event, Mode, Occurrence};

/// The meanings of variables by their names; families by their prefix.
const VARIABLES: [(&str, &str); 46] = [
    ("APP_MEMID", "the index of the program's first memory"),
    ("fid", "the index of the function"),
    (
        "pc",
        "where the instruction stands, in bytes from the beginning of the function's body; 0 at the function's entry",
    ),
    ("opidx", "where the instruction stands, in instructions from the beginning of the function"),
    ("at_func_end", "whether this is the last `end` of the function"),
    ("fname", "the name of the function, empty if it has none"),
    ("file", "the source file from the debug information; empty if there is none"),
    ("line", "the line in the source file, 0 if nothing is known"),
    (
        "probe_id",
        "the number of this probe at this place; only in monitors, and for `remove_probe`",
    ),
    ("instr_count", "how many instructions the basic block has that ends here"),
    ("opname", "the name of the instruction"),
    ("category_id", "the number of the instruction's category"),
    ("category_name", "the name of the instruction's category"),
    ("bytecode", "the opcode, with its prefix"),
    ("taken", "whether the branch is about to be taken, or the first arm of the choice"),
    ("trap", "whether the instruction is about to trap"),
    ("data_size", "how many bytes are read or written"),
    ("addr", "the address, without the offset"),
    ("offset", "the offset that is added to the address"),
    ("align", "the alignment that the instruction promises, in bytes"),
    ("memory", "the index of the memory"),
    ("effective_addr", "the address with the offset"),
    ("is_write", "whether the instruction writes"),
    ("targets", "the labels of the branch, by their numbers, without the default"),
    ("default_target", "the label for all other numbers"),
    ("num_targets", "how many labels there are beside the default"),
    (
        "target",
        "the number of the label that the branch takes; `num_targets` stands for the default",
    ),
    ("target_fn_name", "the name of the function that is called"),
    (
        "target_fn_type",
        "whether the function that is called is the program's (`local`) or imported (`import`)",
    ),
    (
        "target_imp_module",
        "the module from which the function is imported that is called, empty if it is the program's",
    ),
    ("tid", "the index of the type"),
    ("field_idx", "the number of the field"),
    ("table_entry_idx", "the index of the table's entry"),
    ("target_funcref", "the reference in the table's entry"),
    ("resolved_fid", "the index of the function that is referred to, -1 if it is not known"),
    ("failed", "whether the memory could not grow"),
    ("functions", "how many functions the program has"),
    ("bytes", "how large the module or the function's machine code is"),
    ("before", "how many pages the memory had"),
    ("after", "how many pages the memory has"),
    ("code", "which trap it is, -1 if that is not known"),
    ("thread", "the number of the thread; 0 is the one that the program begins with"),
    ("arg", "an operand; arg0 is the top of the stack, the last that was pushed"),
    ("res", "a result; res0 is the top of the stack"),
    ("imm", "an immediate, in the order of the encoding"),
    ("local", "a local variable of the function, parameters first"),
];

/// The meaning of a variable.
pub fn variable(name: &str) -> &'static str {
    let family = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let find = |name: &str| VARIABLES.iter().find(|v| v.0 == name).map(|v| v.1);
    find(name).or_else(|| find(family)).unwrap_or("")
}

/// When a probe acts at an event in a mode.
pub fn mode(event: Event, mode: Mode) -> &'static str {
    let name = event.names().1;
    match (mode, name) {
        (Mode::Before, "end") => "where control comes to the end, also by a branch",
        (Mode::Before, "loop") => {
            "each time control comes to the loop, also by a branch: in each round"
        }
        (Mode::Before, "catch" | "catch_all") => {
            "where control falls out of what is before it: nothing was caught"
        }
        (Mode::Before, "delegate") => {
            "where control comes to the end of the `try`, also by a branch"
        }
        (Mode::Before, _) => "immediately before the instruction",
        (
            Mode::After,
            "br_if" | "br_on_null" | "br_on_non_null" | "br_on_cast" | "br_on_cast_fail",
        ) => "behind the branch, where it was not taken",
        (Mode::After, "br" | "br_table") => "behind the branch, where control never comes",
        (Mode::After, "end") => {
            "behind the end; at the function's last, where the function is left by it"
        }
        (Mode::After, "catch" | "catch_all") => "first thing where an exception was caught",
        (Mode::After, "delegate") => "behind the end of the `try`",
        (Mode::After, _) => "behind the instruction, where it gave its results",
        (Mode::Alt, _) => {
            "instead of the instruction; what the body returns is what the instruction would have given"
        }
        (Mode::Entry, "loop") => "first thing in the loop, in each round",
        (Mode::Entry, "if") => "first thing in the first arm",
        (Mode::Entry, "else") => "first thing in the second arm",
        (Mode::Entry, _) => "first thing in the block",
        (Mode::Exit, "if") => "at the end of the first arm, where control falls through",
        (Mode::Exit, "else") => "at the end of the second arm, where control falls through",
        (Mode::Exit, _) => "at the end of the block, where control falls through",
        (Mode::SemanticAfter, "br" | "br_if" | "br_table") => {
            "where the branch is taken, on the way to where it lands"
        }
        (Mode::SemanticAfter, "loop") => "behind the loop, when it is over",
        (Mode::SemanticAfter, _) => "behind the end of the block, however control came there",
        (Mode::BlockAlt, "else") => {
            "instead of what is in the second arm; what the body returns is what the arm would have given"
        }
        (Mode::BlockAlt, _) => {
            "instead of the whole block; what the body returns is what the block would have given"
        }
        (Mode::None, _) => match event {
            Event::FuncEntry => "when a function begins",
            Event::FuncExit => {
                "when a function ends: by return, falling through, branching out, or a tail call"
            }
            Event::FuncUnwind => "when an exception leaves a function, or before an `unreachable`",
            Event::BlockStart => "when a basic block begins",
            Event::BlockEnd => "when a basic block ends",
            Event::Report => {
                "when the report is due: what is printed here is printed instead of it"
            }
            Event::Begin => "before the program's first instruction",
            Event::End => "when the program has ended, before the report",
            Event::Engine(what) => match what {
                Occurrence::ModuleLoaded => {
                    "when the program is compiled, before it begins; only in monitors"
                }
                Occurrence::FunctionCompiled => {
                    "when the program is compiled, for each function; only in monitors"
                }
                Occurrence::Instantiated => {
                    "when the program's memories hold their first data, before its first \
                     instruction; only in monitors"
                }
                Occurrence::MemoryGrown => {
                    "when a memory of the program's has grown; only in monitors"
                }
                Occurrence::Trap => "when the program has ended by a trap; only in monitors",
                Occurrence::ThreadStart => {
                    "when a thread begins to execute the program; only in monitors"
                }
                Occurrence::ThreadEnd => "when a thread has ended; only in monitors",
            },
            Event::Opcode(_) => "",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_and_every_mode_is_explained() {
        for event in Event::all().chain(Event::of_engines()) {
            for (name, _) in event.variables() {
                assert!(!variable(&name).is_empty(), "{name} of {}", event.path());
            }
            for (_, of) in event.modes() {
                assert!(!mode(event, *of).is_empty(), "{of:?} of {}", event.path());
            }
            assert!(
                !event.modes().is_empty() || !mode(event, Mode::None).is_empty(),
                "{}",
                event.path()
            );
        }
    }
}
