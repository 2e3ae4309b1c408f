//! The cost of executing an inactive site, by its form and its offset.
//!
//! A loop with one inactive site in it is run at each of the 64 offsets in a line, and across a
//! page at each of its bytes. It is compared with the same loop without the site at the best
//! offset, and with the same loop with a five-byte nop at the same offset: part of the cost of an
//! offset is that the loop after the site is badly aligned, too. All offsets and forms run in turn,
//! round by round. (Inactive sites in compiled programs: `table3`, rows `…/latent`.)
//!
//! `C3` is an inactive tail call, the `ret` of a function: the loop calls that function, and is
//! compared with a loop that calls a well-aligned one. There is no nop to compare it with.
//!
//! | row | what |
//! |---|---|
//! | `FORM` | the mean over all offsets; its interval is the mean of theirs |
//! | `FORM/median`, `FORM/worst` | the offset in the middle, and the worst |
//! | `FORM/nop`, `FORM/nop/median`, `FORM/nop/worst` | the same beside a five-byte nop at the same offset |
//! | `FORM/added` | the additional time of a pass, in picoseconds, beside that of a nop: the mean over all offsets |
//! | `FORM/offset/NN` | the site begins NN bytes into a line |
//! | `FORM/page/N` | N bytes of it lie before the end of a page |

use crate::bench_code::{Counted, Form};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use std::error::Error;
use wordpatch::Ticks;

/// The nop comes first, since the others are compared with it.
const FORMS: [(&str, Form); 6] = [
    ("nop5", Form::Nop),
    ("A9", Form::Test),
    ("67-A9", Form::PrefixedTest),
    ("85-15", Form::TestMemory),
    ("EB-03", Form::Jump),
    ("C3", Form::Return),
];

/// The number of passes in a sample, such that reading the clock costs a thousandth of their time.
const PASSES: u64 = 20_000;

/// The number of samples in a block.
const SAMPLES: usize = 4;

/// The best offset, far from a page's end; and the end.
const WELL: usize = 2048;
const PAGE: usize = 4096;
const OFFSETS: usize = 64;

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let mut places = places().map(|(_, at)| Place::new(at)).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..if quick { 30 } else { 120 } {
        places.iter_mut().flat_map(Place::all).for_each(Series::block);
    }
    let mut report = Report::new("latent");
    let ticks_per_ns = crate::table2::ticks_per_ns();
    for (form, (name, _)) in FORMS.iter().enumerate() {
        summary(name, form, &places[..OFFSETS], ticks_per_ns, &mut report);
    }
    for (form, (name, _)) in FORMS.iter().enumerate() {
        for ((place, _), measured) in self::places().zip(&places) {
            report.rows.extend(
                measured
                    .beside_nothing(form)
                    .map(|ratio| Row::compared(format!("{name}/{place}"), MTICKS, &ratio)),
            );
        }
    }
    report.notes.push(format!(
        "A pass of the loop in thousandths of a tick, of which {ticks_per_ns:.3} make a nanosecond."
    ));
    Ok(report)
}

const MTICKS: &str = "mticks";

/// The offsets in a line, then the cuts by a page, with their names.
fn places() -> impl Iterator<Item = (String, usize)> {
    let offsets = (0..OFFSETS).map(|offset| (format!("offset/{offset:02}"), WELL + offset));
    offsets.chain((1..6).map(|before| (format!("page/{before}"), PAGE - before)))
}

/// A loop, and the ticks per pass in thousandths.
#[derive(Debug)]
struct Series {
    code: Counted,
    blocks: Blocks,
}

impl Series {
    fn new(form: Form, at: usize) -> Result<Self, Box<dyn Error>> {
        Ok(Self { code: Counted::new(form, at)?, blocks: Blocks::default() })
    }

    fn block(&mut self) {
        // The first run is a warm-up: it touches the loop's pages and trains the branch predictor.
        self.code.run(PASSES / 10);
        for _ in 0..SAMPLES {
            let start = Ticks::now();
            self.code.run(PASSES);
            self.blocks.push(Ticks::now().since(start).0 * 1000 / PASSES);
        }
        self.blocks.close();
    }
}

/// All forms at one offset, with their baselines.
#[derive(Debug)]
struct Place {
    nothing: Series,
    well: Series,
    forms: [Series; FORMS.len()],
}

impl Place {
    fn new(at: usize) -> Result<Self, Box<dyn Error>> {
        let forms: Vec<Series> =
            FORMS.iter().map(|(_, form)| Series::new(*form, at)).collect::<Result<_, _>>()?;
        let forms = forms.try_into().unwrap_or_else(|_| unreachable!("one for each"));
        Ok(Self {
            nothing: Series::new(Form::Nothing, WELL)?,
            well: Series::new(Form::AlignedReturn, WELL)?,
            forms,
        })
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Series> {
        [&mut self.nothing, &mut self.well].into_iter().chain(&mut self.forms)
    }

    fn beside_nothing(&self, form: usize) -> Option<Ratio> {
        let baseline = if FORMS[form].1 == Form::Return { &self.well } else { &self.nothing };
        Ratio::of(&self.forms[form].blocks, &baseline.blocks, 0.0)
    }

    fn beside_nop(&self, form: usize) -> Option<Ratio> {
        stands_for_a_nop(form)
            .then(|| Ratio::of(&self.forms[form].blocks, &self.forms[0].blocks, 0.0))
            .flatten()
    }
}

/// Whether the form replaces a nop: not the nop itself, and no form outside of the loop.
fn stands_for_a_nop(form: usize) -> bool {
    !matches!(FORMS[form].1, Form::Nop | Form::Return)
}

fn summary(name: &str, form: usize, offsets: &[Place], ticks_per_ns: f64, report: &mut Report) {
    let kinds = [
        (name.to_owned(), offsets.iter().filter_map(|place| place.beside_nothing(form)).collect()),
        (
            format!("{name}/nop"),
            offsets.iter().filter_map(|place| place.beside_nop(form)).collect::<Vec<_>>(),
        ),
    ];
    for (name, mut ratios) in kinds {
        let Some(mean) = mean(&ratios) else { continue };
        ratios.sort_by(|a, b| a.median.total_cmp(&b.median));
        report.rows.push(Row::compared(&name, MTICKS, &mean));
        let picked = [("median", ratios.get(ratios.len() / 2)), ("worst", ratios.last())];
        report.rows.extend(picked.into_iter().filter_map(|(which, ratio)| {
            Some(Row::compared(format!("{name}/{which}"), MTICKS, ratio?))
        }));
    }
    let added = |form: usize| {
        let ratios: Vec<Ratio> =
            offsets.iter().filter_map(|place| place.beside_nothing(form)).collect();
        mean(&ratios).map(|mean| (mean.value - mean.baseline) / ticks_per_ns)
    };
    let row = added(form)
        .map(|value| Row::plain(format!("{name}/added"), value, "ps", offsets.len() as u64));
    report.rows.extend(
        row.map(|row| Row { baseline: added(0).filter(|_| stands_for_a_nop(form)), ..row }),
    );
}

/// The mean of each figure.
pub(crate) fn mean(ratios: &[Ratio]) -> Option<Ratio> {
    let mean = |of: fn(&Ratio) -> f64| ratios.iter().map(of).sum::<f64>() / ratios.len() as f64;
    (!ratios.is_empty()).then(|| Ratio {
        value: mean(|ratio| ratio.value),
        baseline: mean(|ratio| ratio.baseline),
        median: mean(|ratio| ratio.median),
        lo: mean(|ratio| ratio.lo),
        hi: mean(|ratio| ratio.hi),
        pairs: ratios.iter().map(|ratio| ratio.pairs).sum(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ticks: u64) -> Blocks {
        let mut blocks = Blocks::default();
        for _ in 0..3 {
            blocks.push(ticks);
            blocks.close();
        }
        blocks
    }

    #[test]
    fn the_places_are_every_offset_and_every_cut_by_a_page() {
        let places: Vec<(String, usize)> = places().collect();
        assert!((0..64).all(|offset| places[offset].1 % 64 == offset));
        assert_eq!(
            places[64..].iter().map(|(_, at)| 4096 - at).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5]
        );
        assert_eq!((places[7].0.as_str(), places[64].0.as_str()), ("offset/07", "page/1"));
    }

    #[test]
    fn the_mean_of_nothing_is_nothing_and_of_two_it_lies_between() {
        assert_eq!(mean(&[]), None);
        let ratio = |value| Ratio {
            value,
            baseline: 10.0,
            median: value / 10.0,
            lo: 0.0,
            hi: 2.0,
            pairs: 3,
        };
        let between = mean(&[ratio(10.0), ratio(20.0)]).unwrap();
        assert_eq!(
            between,
            Ratio { value: 15.0, baseline: 10.0, median: 1.5, lo: 0.0, hi: 2.0, pairs: 6 }
        );
    }

    #[test]
    fn a_form_is_held_against_nothing_and_against_a_nop_at_its_place() {
        let mut place = Place::new(WELL).unwrap();
        (place.nothing.blocks, place.well.blocks) = (measured(500), measured(4000));
        place.forms.iter_mut().for_each(|series| series.blocks = measured(2000));
        place.forms[0].blocks = measured(1000);
        let mut report = Report::new("latent");
        for (form, (name, _)) in FORMS.iter().enumerate() {
            summary(name, form, std::slice::from_ref(&place), 2.0, &mut report);
        }
        let row = |name: &str| report.rows.iter().find(|row| row.name == name);
        assert_eq!(row("nop5").unwrap().ratio, Some(2.0));
        assert_eq!(row("A9/worst").unwrap().ratio, Some(4.0));
        assert_eq!(row("A9/nop/median").unwrap().ratio, Some(2.0));
        assert_eq!(row("C3").unwrap().ratio, Some(0.5));
        assert!(row("C3/nop").is_none() && row("nop5/nop").is_none());
        let added = row("A9/added").unwrap();
        assert_eq!((added.value, added.baseline), (750.0, Some(250.0)));
    }
}
