//! As gprof prints it: a flat profile, and who calls whom.

use crate::profile::{Function, Profile};
use std::fmt::Write;

impl Profile {
    /// As gprof prints it.
    pub fn gprof(&self) -> String {
        let mut text = "Flat profile:\n\nTimes include what a function calls, unless `self` is known.\n\n".to_owned();
        let _ = writeln!(text, "  %   cumulative   self              total");
        let _ = writeln!(text, " time   seconds   seconds    calls   ns/call  name");
        let time = |function: &Function| function.own.or(function.total).map_or(0.0, |time| time.value.max(0.0));
        let mut rows: Vec<&Function> = self.functions.iter().collect();
        rows.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| a.label.name.cmp(&b.label.name)));
        let whole = self.whole().max(1.0);
        let mut cumulative = 0.0;
        for function in &rows {
            let own = time(function);
            cumulative += own / 1e9;
            let per_call = function.mean.map_or(0.0, |mean| mean.value.max(0.0));
            let _ = writeln!(
                text,
                "{:5.1} {cumulative:10.3} {:9.3} {:8.0} {per_call:9.1}  {}",
                100.0 * own / whole,
                own / 1e9,
                function.calls.value,
                function.label.name
            );
        }
        text.push_str("\n\nCall graph:\n\nUnder each function those that called it, by the share of its time.\n\n");
        for (number, function) in rows.iter().enumerate().filter(|(_, function)| !function.arcs.is_empty()) {
            let _ = writeln!(text, "[{}] {}", number + 1, function.label.name);
            for arc in &function.arcs {
                let caller = match &arc.caller {
                    Some(caller) => caller.name.clone(),
                    None if arc.site == 0 => "<others>".to_owned(),
                    None => format!("<{:#x}>", arc.site),
                };
                let _ = writeln!(text, "    {:5.1} %  {:>9} timed  {caller}", 100.0 * arc.share, arc.samples);
            }
        }
        text
    }
}
