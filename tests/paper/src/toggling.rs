//! Throughput under toggling (figures 11 to 13), and the states that executing threads see.
//!
//! Threads run a loop with one site in it while another thread toggles the site, at regular
//! intervals. Each figure shows the slowdown as toggles become more frequent, for one way to
//! toggle:
//!
//! - `fig11`: calls, switched by one byte (in the literature: calls that lie within a line).
//! - `fig12`: words of which both sides of a line change, replaced by the trap protocol: a `call`,
//!   which the trap handler emulates for threads that hit the trap, and a `mov`, which it cannot
//!   emulate.
//! - `fig13`: calls, toggled by the literature's four cases: `uncut`, and `cutN` with N bytes
//!   before the end of a line.
//!
//! The baseline is the same loop without toggling, in the same round: the toggling thread spins
//! instead, once with the site on and once with it off. So the cost of a site that is on does not
//! count as a cost of toggling, see [`Paces`]. Throughput is passes per millisecond of the
//! executing threads' CPU time, see [`processor_time`], beside the expected value for as many
//! passes of each state. If there is a processor for each thread, a span in which a thread had to
//! wait for one is ignored.
//!
//! | row | what | beside |
//! |---|---|---|
//! | `THREADS/still/on`, `…/off` | passes per millisecond of a site that is not toggled | |
//! | `THREADS/0` | the same, half on and half off, while the other thread sleeps | the expected value |
//! | `THREADS/RATE` | passes per millisecond under toggling | the expected value |
//! | `THREADS/RATE/balance` | passes that saw it on, in per mille | the expected share for the time that it was on |
//! | `THREADS/RATE/time-on` | the time that it was on, in per mille | |
//! | `THREADS/RATE/toggles` | toggles per second that were reached | |
//! | `retried` | words that were still claimed by an executing thread which had finished the patch before | |

use crate::bench_code::Passes;
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use paces::Paces;
use std::error::Error;
use std::time::Duration;
use subject::Subject;
use wordpatch::{Policy, Ticks};

mod paces;
mod processor_time;
mod subject;

/// The figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    OneByte,
    Word,
    Paper,
}

impl Figure {
    fn name(self) -> &'static str {
        match self {
            Self::OneByte => "fig11",
            Self::Word => "fig12",
            Self::Paper => "fig13",
        }
    }

    /// The toggled subjects, with the beginnings of their rows' names.
    fn subjects(self, policy: &Policy) -> Result<Vec<(String, Subject)>, Box<dyn Error>> {
        const WITHIN: usize = 2048 + 16;
        const BOUNDARY: usize = 2048 + 64;
        Ok(match self {
            Self::OneByte => vec![(String::new(), Subject::call(WITHIN, false, policy)?)],
            Self::Word => vec![
                ("call/".to_owned(), Subject::call_as_word(policy)?),
                ("mov/".to_owned(), Subject::mov(policy)?),
            ],
            Self::Paper => {
                let cuts = (1..5).map(|before| (format!("cut{before}/"), BOUNDARY - before));
                let places = [("uncut/".to_owned(), WITHIN)].into_iter().chain(cuts);
                places
                    .map(|(name, at)| Ok((name, Subject::call(at, true, policy)?)))
                    .collect::<Result<_, Box<dyn Error>>>()?
            }
        })
    }
}

/// Toggles per second; the last is as fast as possible.
const RATES: [(&str, f64); 6] =
    [("100", 1e2), ("1k", 1e3), ("10k", 1e4), ("100k", 1e5), ("1M", 1e6), ("max", f64::INFINITY)];

/// Stops the executing threads on drop, so that no thread waits for them for ever after a failure.
#[derive(Debug)]
pub(crate) struct Stop<'a>(pub(crate) &'a [Passes]);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(Passes::stop);
    }
}

pub(crate) fn measure(figure: Figure, quick: bool) -> Result<Report, Box<dyn Error>> {
    let policy = Policy::new()?;
    let mut report = Report::new(figure.name());
    let cores = std::thread::available_parallelism()?.get();
    let ticks_per_ns = crate::table2::ticks_per_ns();
    let mut disturbed = 0;
    for (prefix, subject) in figure.subjects(&policy)? {
        for threads in 1..=cores {
            // If threads take turns on a processor, a span has to contain several turns.
            let span = Duration::from_millis(if threads < cores { 20 } else { 60 });
            let passes = (0..threads).map(|_| Passes::default()).collect();
            let series =
                Series { subject: &subject, passes, span, ticks_per_ns, roomy: threads < cores };
            let figures = series.run(if quick { 10 } else { 40 })?;
            figures.rows(&format!("{prefix}{threads}"), ticks_per_ns, &mut report);
            disturbed += figures.disturbed;
        }
        let retried = subject
            .retried()
            .map(|count| Row::plain(format!("{prefix}retried"), count as f64, "words", count));
        report.rows.extend(retried);
    }
    report.notes.push(format!(
        "{cores} processors. The toggler needs one: beside as many executers it shares it with one of them, and while it has to wait \
         its turn, the site stays as it is. There the balance tells whose turn it was. {disturbed} spans were left out because others used the \
         machine. Barrier: {}; granule: {} bytes.",
        policy.barrier,
        policy.granule.bytes()
    ));
    Ok(report)
}

/// The observations in a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spell {
    /// Passes that saw the site on, and all passes.
    seen: [u64; 2],
    /// The ticks for which the site was on, and all ticks.
    time: [u64; 2],
    toggles: u64,
    /// The CPU time of the executing threads, in nanoseconds.
    worked: u64,
    /// Whether a thread had to wait for a processor although there is one for each.
    disturbed: bool,
}

impl Spell {
    fn add(&mut self, other: &Self) {
        *self = Self {
            seen: [0, 1].map(|i| self.seen[i] + other.seen[i]),
            time: [0, 1].map(|i| self.time[i] + other.time[i]),
            toggles: self.toggles + other.toggles,
            worked: self.worked + other.worked,
            disturbed: self.disturbed || other.disturbed,
        };
    }

    /// Passes per millisecond of work.
    fn pace(&self) -> f64 {
        self.seen[1] as f64 * 1e6 / self.worked.max(1) as f64
    }

    fn time_on(&self) -> f64 {
        share(self.time)
    }
}

fn share([part, whole]: [u64; 2]) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// One site and its executing threads.
struct Series<'a> {
    subject: &'a Subject,
    passes: Vec<Passes>,
    span: Duration,
    ticks_per_ns: f64,
    /// Whether there is a processor for the toggling thread, too.
    roomy: bool,
}

impl Series<'_> {
    fn run(&self, rounds: usize) -> Result<Figures, Box<dyn Error>> {
        let mut figures = Figures::default();
        std::thread::scope(|scope| {
            let _stop = Stop(&self.passes);
            self.passes.iter().for_each(|passes| drop(scope.spawn(|| self.subject.run(passes))));
            while self.passes.iter().any(|passes| passes.seen()[1] == 0) {
                std::thread::yield_now();
            }
            (0..rounds).try_for_each(|_| self.round(&mut figures))
        })?;
        if figures.on.len() == 0 {
            return Err("executers never had a processor of their own: leave the machine alone while this runs".into());
        }
        Ok(figures)
    }

    /// Runs every rate once. Without known expected values the round is ignored.
    fn round(&self, figures: &mut Figures) -> Result<(), Box<dyn Error>> {
        let [on, off] =
            [self.spell(true, || self.stay(true))?, self.spell(true, || self.stay(false))?];
        let paces = Paces { on: on.pace(), off: off.pace() };
        if on.disturbed || off.disturbed || !paces.are_known() {
            figures.disturbed += 1;
            return Ok(());
        }
        figures.still(paces);
        let alone = self.spell(false, || self.leave_alone())?;
        figures.note(None, &alone, paces);
        for (rate, (_, a_second)) in RATES.iter().enumerate() {
            let length = self.span.as_nanos() as f64 * self.ticks_per_ns;
            let interval = self.ticks_per_ns * 1e9 / a_second;
            let spell = self
                .spell(true, || keep_toggling(interval, length, &|on| self.subject.toggle(on)))?;
            figures.note(Some(rate), &spell, paces);
        }
        Ok(())
    }

    /// The observations while `act` runs, which is `busy` or asleep. It returns the ticks for which
    /// the site was on, all ticks and the toggles.
    fn spell(
        &self,
        busy: bool,
        act: impl FnOnce() -> Result<Toggled, Box<dyn Error>>,
    ) -> Result<Spell, Box<dyn Error>> {
        let before = self.look()?;
        let Toggled { on, all, toggles } = act()?;
        let after = self.look()?;
        let seen = [0, 1].map(|i| after.seen[i] - before.seen[i]);
        let [own, worked] = [
            after.spent.own - before.spent.own,
            after.spent.others.saturating_sub(before.spent.others),
        ];
        let due = 0.9 * all as f64 / self.ticks_per_ns;
        let in_want =
            (worked as f64) < due * self.passes.len() as f64 || (busy && (own as f64) < due);
        Ok(Spell { seen, time: [on, all], toggles, worked, disturbed: self.roomy && in_want })
    }

    /// The counts of the executing threads so far. If this thread was preempted in between, the
    /// counts are inconsistent, and it reads them again.
    fn look(&self) -> Result<Look, Box<dyn Error>> {
        let mut left = 100;
        loop {
            let start = Ticks::now();
            let look =
                Look { seen: self.subject.seen(&self.passes)?, spent: processor_time::spent()? };
            let took = Ticks::now().since(start).0 as f64 / self.ticks_per_ns;
            if took < 20e3 || left == 0 {
                return Ok(look);
            }
            left -= 1;
        }
    }

    /// Spins as the toggling thread would.
    fn stay(&self, on: bool) -> Result<Toggled, Box<dyn Error>> {
        self.subject.toggle(on)?;
        let (start, length) = (Ticks::now(), self.span.as_nanos() as f64 * self.ticks_per_ns);
        while (Ticks::now().since(start).0 as f64) < length {
            std::hint::spin_loop();
        }
        let all = Ticks::now().since(start).0;
        Ok(Toggled { on: if on { all } else { 0 }, all, toggles: 0 })
    }

    /// The site is on for half of the span and off for the other half, and the thread sleeps.
    fn leave_alone(&self) -> Result<Toggled, Box<dyn Error>> {
        let start = Ticks::now();
        self.subject.toggle(true)?;
        std::thread::sleep(self.span / 2);
        self.subject.toggle(false)?;
        let on = Ticks::now().since(start).0;
        std::thread::sleep(self.span / 2);
        Ok(Toggled { on, all: Ticks::now().since(start).0, toggles: 2 })
    }
}

/// Passes that saw the site on and all passes, and the CPU time of the toggling and the executing
/// threads.
struct Look {
    seen: [u64; 2],
    spent: processor_time::Spent,
}

/// The ticks for which the site was on, all ticks, and the number of toggles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Toggled {
    on: u64,
    all: u64,
    toggles: u64,
}

/// Toggles at intervals until the time is over, first to on; leaves the site off. Both times are in
/// ticks.
fn keep_toggling(
    interval: f64,
    length: f64,
    toggle: &dyn Fn(bool) -> Result<(), Box<dyn Error>>,
) -> Result<Toggled, Box<dyn Error>> {
    let start = Ticks::now();
    let elapsed = || Ticks::now().since(start).0;
    let mut done = Toggled::default();
    let mut last = 0;
    loop {
        let on = done.toggles.is_multiple_of(2);
        toggle(on)?;
        done.toggles += 1;
        let now = elapsed();
        if !on {
            done.on += now - last;
        }
        last = now;
        let next = (done.toggles as f64 * interval).min(length);
        while (elapsed() as f64) < next {
            std::hint::spin_loop();
        }
        done.all = elapsed();
        if done.all as f64 >= length && !on {
            return Ok(done);
        }
    }
}

/// The figures of one rate.
#[derive(Debug, Default)]
struct Cell {
    pace: Blocks,
    due: Blocks,
    whole: Spell,
}

impl Cell {
    fn note(&mut self, spell: &Spell, paces: Paces) {
        for (blocks, pace) in
            [(&mut self.pace, spell.pace()), (&mut self.due, paces.due(spell.seen))]
        {
            blocks.push(pace as u64);
            blocks.close();
        }
        self.whole.add(spell);
    }
}

/// The figures of all rates.
#[derive(Debug, Default)]
struct Figures {
    on: Blocks,
    off: Blocks,
    alone: Cell,
    cells: [Cell; RATES.len()],
    /// Ignored spans.
    disturbed: u64,
}

impl Figures {
    /// Records a span at one of the rates, or without toggling.
    fn note(&mut self, rate: Option<usize>, spell: &Spell, paces: Paces) {
        if spell.disturbed {
            self.disturbed += 1;
            return;
        }
        rate.map_or(&mut self.alone, |rate| &mut self.cells[rate]).note(spell, paces);
    }

    fn still(&mut self, paces: Paces) {
        for (blocks, pace) in [(&mut self.on, paces.on), (&mut self.off, paces.off)] {
            blocks.push(pace as u64);
            blocks.close();
        }
    }

    fn rows(&self, name: &str, ticks_per_ns: f64, report: &mut Report) {
        let paces = Paces { on: self.on.median(0.0), off: self.off.median(0.0) };
        let still = [("on", &self.on, paces.on), ("off", &self.off, paces.off)];
        let plain = |(state, blocks, pace): (_, &Blocks, _)| {
            Row::plain(format!("{name}/still/{state}"), pace, "1/ms", blocks.len() as u64)
        };
        report.rows.extend(still.map(plain));
        let rates = [("0", &self.alone)]
            .into_iter()
            .chain(RATES.iter().map(|(rate, _)| *rate).zip(&self.cells));
        for (rate, Cell { pace, due, whole }) in rates {
            let row = format!("{name}/{rate}");
            // A rate whose spans were all disturbed has no rows.
            let Some(ratio) = Ratio::of(pace, due, 0.0) else { continue };
            report.rows.push(Row::compared(&row, "1/ms", &ratio));
            let balance = Row::plain(
                format!("{row}/balance"),
                1e3 * share(whole.seen),
                "permille",
                whole.seen[1],
            );
            report.rows.push(Row { baseline: Some(1e3 * paces.share(whole.time_on())), ..balance });
            report.rows.push(Row::plain(
                format!("{row}/time-on"),
                1e3 * whole.time_on(),
                "permille",
                whole.toggles,
            ));
            let seconds = whole.time[1] as f64 / ticks_per_ns / 1e9;
            report.rows.push(Row::plain(
                format!("{row}/toggles"),
                whole.toggles as f64 / seconds,
                "1/s",
                whole.toggles,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn toggling_begins_with_on_alternates_and_leaves_it_off() {
        for interval in [0.0, 1e3, 1e9] {
            let seen = RefCell::new(Vec::new());
            let note = |on| {
                seen.borrow_mut().push(on);
                Ok(())
            };
            let done = keep_toggling(interval, 1e5, &note).unwrap();
            let seen = seen.into_inner();
            assert_eq!((seen.len() as u64, seen.len() % 2), (done.toggles, 0));
            assert!(seen.chunks(2).all(|pair| pair == [true, false]));
            assert!(done.on <= done.all && done.all >= 100_000, "{done:?}");
        }
    }

    #[test]
    fn a_toggle_that_fails_ends_the_measurement() {
        let refuse = |on| if on { Ok(()) } else { Err("refused".into()) };
        assert_eq!(keep_toggling(0.0, 1e5, &refuse).unwrap_err().to_string(), "refused");
    }

    #[test]
    fn a_spell_without_work_has_no_pace() {
        assert_eq!((Spell::default().pace(), Spell::default().time_on()), (0.0, 0.0));
        let spell =
            Spell { seen: [1, 4], time: [30, 40], toggles: 2, worked: 2_000_000, disturbed: false };
        assert_eq!((spell.pace(), spell.time_on()), (2.0, 0.75));
        let mut twice = spell;
        twice.add(&spell);
        assert_eq!(
            twice,
            Spell { seen: [2, 8], time: [60, 80], toggles: 4, worked: 4_000_000, disturbed: false }
        );
    }

    #[test]
    fn every_figure_has_a_row_for_every_rate_of_every_subject() {
        let mut figures = Figures::default();
        let paces = Paces { on: 1000.0, off: 3000.0 };
        let spell = Spell {
            seen: [500, 2000],
            time: [1, 2],
            toggles: 2,
            worked: 1_000_000,
            disturbed: false,
        };
        figures.still(paces);
        [None]
            .into_iter()
            .chain((0..RATES.len()).map(Some))
            .for_each(|rate| figures.note(rate, &spell, paces));
        let disturbed = Spell { seen: [0, 7], disturbed: true, ..spell };
        figures.note(None, &disturbed, paces);
        assert_eq!((figures.disturbed, figures.alone.whole), (1, spell));
        let mut report = Report::new("fig11");
        figures.rows("1", 1.0, &mut report);
        let names: Vec<&str> = report.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names.len(), 2 + 4 * (1 + RATES.len()));
        for (rate, _) in RATES {
            let row = report.rows.iter().find(|row| row.name == format!("1/{rate}")).unwrap();
            assert_eq!((row.value, row.baseline, row.ratio), (2000.0, Some(2000.0), Some(1.0)));
            let balance =
                report.rows.iter().find(|row| row.name == format!("1/{rate}/balance")).unwrap();
            assert_eq!((balance.value, balance.baseline), (250.0, Some(250.0)));
        }
    }
}
