//! What an inactive site costs whoever passes it, by its form and by its place.
//!
//! A loop that does nothing is compared with the same loop with one inactive site in it, at each of the 64 offsets in a line and across a
//! page. All places and forms are run in turn, round by round. (Inactive sites in compiled programs: `table3`, rows `…/latent`.)
//!
//! | row | what |
//! |---|---|
//! | `FORM` | the mean over all places of the line |
//! | `FORM/worst` | the place that is worst |
//! | `FORM/page` | across a page |
//! | `FORM/straddling/N` | the line's boundary lies behind the site's first N bytes |

use crate::bench_code::{Counted, Form};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use std::error::Error;
use wordpatch::Ticks;

const FORMS: [(&str, Form, Form); 6] = [
    ("nop5", Form::Nop, Form::Nothing),
    ("A9", Form::Test, Form::Nothing),
    ("67-A9", Form::PrefixedTest, Form::Nothing),
    ("85-15", Form::TestMemory, Form::Nothing),
    ("EB-03", Form::Jump, Form::Nothing),
    ("C3", Form::Return, Form::AlignedReturn),
];

/// Passes in a sample.
const PASSES: u64 = 4000;

/// The places: offsets in a line, far from a page's end; and the last one across it.
fn places() -> impl Iterator<Item = usize> {
    (2048..2048 + 64).chain([4096 - 3])
}

/// A loop, and the ticks of a pass in thousandths.
struct Series {
    code: Counted,
    blocks: Blocks,
}

impl Series {
    fn new(form: Form, at: usize) -> Result<Self, Box<dyn Error>> {
        Ok(Self { code: Counted::new(form, at)?, blocks: Blocks::default() })
    }

    fn sample(&mut self) {
        let start = Ticks::now();
        self.code.run(PASSES);
        self.blocks.push(Ticks::now().since(start).0 * 1000 / PASSES);
    }
}

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let rounds = if quick { 30 } else { 120 };
    let mut report = Report::new("latent");
    for (name, form, baseline) in FORMS {
        let mut subjects = places().map(|at| Series::new(form, at)).collect::<Result<Vec<_>, _>>()?;
        // The empty loop where it lies best: alone in a line.
        let mut empty = Series::new(baseline, 2048)?;
        for _ in 0..rounds {
            // Sampled between each two of the others.
            for series in &mut subjects {
                (0..4).for_each(|_| empty.sample());
                (0..4).for_each(|_| series.sample());
                series.blocks.close();
            }
            empty.blocks.close();
        }
        rows(name, &subjects, &empty, &mut report);
    }
    report.notes.push("Ticks of the counter in thousandths, for one pass of the loop.".into());
    Ok(report)
}

fn rows(name: &str, subjects: &[Series], empty: &Series, report: &mut Report) {
    let ratio = |at: usize| Ratio::of(&subjects[at].blocks, &empty.blocks, 0.0);
    let all: Vec<Ratio> = (0..64).filter_map(ratio).collect();
    let mut row = |row: String, ratio: Option<&Ratio>| {
        report.rows.extend(ratio.map(|ratio| Row::compared(row, "mticks", ratio)));
    };
    let mean = |of: fn(&Ratio) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
    if let Some(first) = all.first() {
        let whole = Ratio {
            value: mean(|ratio| ratio.value),
            median: mean(|ratio| ratio.median),
            lo: mean(|ratio| ratio.lo),
            hi: mean(|ratio| ratio.hi),
            ..*first
        };
        row(name.to_owned(), Some(&whole));
    }
    row(format!("{name}/worst"), all.iter().max_by(|a, b| a.median.total_cmp(&b.median)));
    row(format!("{name}/page"), ratio(64).as_ref());
    for before in 1..5 {
        row(format!("{name}/straddling/{before}"), all.get(64 - before));
    }
}
