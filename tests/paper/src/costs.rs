//! The cost of each kind of patch, while a thread on another core executes the site all the time.
//!
//! | row | what is timed | beside |
//! |---|---|---|
//! | `within/issue` | a patch by one store, until it returns | the store alone |
//! | `within/visible` | the same and a fence: until other cores see it | store and fence, on the same line |
//! | `exchange/visible` | five bytes change inside a quadword | the same |
//! | `straddler/single` | a patch across a line, from its start to its end | its barriers alone, the trap planted |
//! | `straddler/batch1000` | the same, a thousand at once, per patch | the bare stores and barriers of the protocol, per patch |
//! | `async/start` | starting a patch, for the thread that starts it | the store of a trap and a fence |

#![allow(unsafe_code)]

use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use std::error::Error;
use tmax::storm::{Budget, Face, Placement, Shape, Storm, Target};
use wordpatch::live::{self, Width};
use wordpatch::protocol::{Plan, Step, TRAP};
use wordpatch::{BarrierError, Batch, FetchOrder, PatchSite, Pending, Policy, Survey, Ticks, Word};

/// The number of samples in a block, and of blocks of each kind.
#[derive(Clone, Copy)]
struct Size {
    samples: u64,
    blocks: usize,
}

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let size =
        if quick { Size { samples: 40, blocks: 30 } } else { Size { samples: 200, blocks: 60 } };
    let policy = Policy::new()?;
    let overhead = overhead();
    let mut report = Report::new("wordpatch");

    let mut row = |name: &str, (subject, baseline): (Blocks, Blocks)| {
        let ratio = Ratio::of(&subject, &baseline, overhead);
        report.rows.extend(ratio.map(|ratio| Row::compared(name, "ticks", &ratio)));
    };
    let quadword = Bench::new(Shape::Immediate, Placement::InLine(8), &policy)?;
    row(
        "within/issue",
        quadword.pairs(
            &size,
            |face| timed(|| quadword.patch(face)),
            |face| timed(|| quadword.store(face)),
        )?,
    );
    row("within/visible", quadword.fenced_pairs(&size)?);
    let five = Bench::new(Shape::Move, Placement::InLine(8), &policy)?;
    row("exchange/visible", five.fenced_pairs(&size)?);
    let line = Bench::new(Shape::Move, Placement::Astride { boundary: 64, before: 2 }, &policy)?;
    let barriers = barriers(&policy);
    let pass = || (0..barriers).try_for_each(|_| policy.barrier.pass());
    row(
        "straddler/single",
        line.pairs(
            &size,
            |face| timed(|| line.patch(face)),
            |face| line.between(face, || timed(pass)),
        )?,
    );
    row("straddler/batch1000", batch(&policy, &size, pass)?);
    row(
        "async/start",
        line.pairs(
            &size,
            |face| line.start(face),
            |_| timed(|| (line.target.store(8, Width::One, 0xcc), live::fence())),
        )?,
    );
    report.notes.push(format!(
        "Barrier: {}; fetch order: {:?}, so a straddler passes {barriers}. Beside one executer that runs the site in a loop on \
         another core; {overhead:.1} ticks for taking the time are subtracted.",
        policy.barrier, policy.order
    ));
    Ok(report)
}

/// The number of barriers that a straddler passes under this policy.
fn barriers(policy: &Policy) -> usize {
    match policy.order {
        FetchOrder::Upwards => 1,
        FetchOrder::Any => 2,
    }
}

/// The cost of two readings of the counter.
fn overhead() -> f64 {
    let mut blocks = Blocks::default();
    for _ in 0..100 {
        (0..200).for_each(|_| blocks.push(timed(|| ())));
        blocks.close();
    }
    blocks.median(0.0)
}

#[inline(always)]
fn timed<T>(act: impl FnOnce() -> T) -> u64 {
    let start = Ticks::now();
    std::hint::black_box(act());
    Ticks::now().since(start).0
}

/// A target, its site, and the words of its faces.
struct Bench {
    target: Target,
    site: PatchSite,
    words: [Word; 2],
    images: [u64; 2],
}

impl Bench {
    fn new(shape: Shape, placement: Placement, policy: &Policy) -> Result<Self, Box<dyn Error>> {
        Self::adopt(shape, placement, &mut Survey::new(*policy)?)
    }

    fn adopt(
        shape: Shape,
        placement: Placement,
        survey: &mut Survey,
    ) -> Result<Self, Box<dyn Error>> {
        let target = Target::new(shape, placement)?;
        // SAFETY: (1) the memory lives as long as the site; (2) its words begin with an
        // instruction, or lie inside one that no thread enters in the middle; (3) its faces share
        // their layout; (4) the harness writes to it only between patches.
        let site = unsafe { survey.adopt(target.word_at(), shape.len(), shape.layout())? };
        let faces = [Face::Old, Face::New];
        let (words, images) =
            (faces.map(|face| shape.word(face)), faces.map(|face| target.image(face, 0)));
        Ok(Self { target, site, words, images })
    }

    #[inline(always)]
    fn patch(&self, face: Face) {
        // SAFETY: (1) a face of the target's shape.
        unsafe { self.site.patch(self.words[face as usize]) }.expect("a site of our own");
    }

    /// The bare stores of one step.
    fn step(&self, step: Step, face: Face, policy: &Policy) {
        let plan = Plan::new(
            self.site.address(),
            self.site.len(),
            policy.granule,
            policy.order,
            self.target.shape().layout(),
        );
        let word = if step == Step::Trap {
            u64::from_le_bytes([TRAP; 8])
        } else {
            self.images[face as usize]
        };
        for (at, width) in plan.pieces(step).into_iter().flatten() {
            self.target.store(at, width, word >> (8 * at));
        }
    }

    #[inline(always)]
    fn store(&self, face: Face) {
        self.target.store(0, Width::Eight, self.images[face as usize]);
    }

    /// Times the start of a patch; finishes it untimed.
    fn start(&self, face: Face) -> u64 {
        let begin = Ticks::now();
        // SAFETY: (1) a face of the target's shape.
        let pending = unsafe { self.site.start(self.words[face as usize]) };
        let ticks = Ticks::now().since(begin).0;
        pending.and_then(Pending::finish).expect("a site of our own");
        ticks
    }

    /// Runs `act` while a patch is in progress.
    fn between(&self, face: Face, act: impl FnOnce() -> u64) -> u64 {
        // SAFETY: (1) a face of the target's shape.
        let pending =
            unsafe { self.site.start(self.words[face as usize]) }.expect("a site of our own");
        let ticks = act();
        pending.finish().expect("a site of our own");
        ticks
    }

    fn pairs(
        &self,
        size: &Size,
        subject: impl FnMut(Face) -> u64,
        baseline: impl FnMut(Face) -> u64,
    ) -> Result<(Blocks, Blocks), Box<dyn Error>> {
        pairs(&[&self.target], size, subject, baseline)
    }

    /// A patch and a fence beside a store and a fence.
    fn fenced_pairs(&self, size: &Size) -> Result<(Blocks, Blocks), Box<dyn Error>> {
        self.pairs(
            size,
            |face| timed(|| (self.patch(face), live::fence())),
            |face| timed(|| (self.store(face), live::fence())),
        )
    }
}

/// Toggles targets by the subject and by the baseline in turn, block by block, while a thread
/// executes them.
fn pairs(
    targets: &[&Target],
    size: &Size,
    mut subject: impl FnMut(Face) -> u64,
    mut baseline: impl FnMut(Face) -> u64,
) -> Result<(Blocks, Blocks), Box<dyn Error>> {
    let (mut subjects, mut baselines) = (Blocks::default(), Blocks::default());
    let mut count = 0;
    let toggles = 2 * size.samples * size.blocks as u64;
    Storm::new()?.run_all(targets, Budget::toggles(toggles), |face| {
        let turn = count / size.samples;
        // Earlier stores of the harness must not be timed.
        live::fence();
        if turn.is_multiple_of(2) {
            subjects.push(subject(face));
        } else {
            baselines.push(baseline(face));
        }
        count += 1;
        if count.is_multiple_of(2 * size.samples) {
            subjects.close();
            baselines.close();
        }
    })?;
    if subjects.len() < size.blocks / 2 {
        return Err(
            "an executer was hardly ever seen to run: leave the machine two free cores".into()
        );
    }
    Ok((subjects, baselines))
}

/// A thousand straddlers at once beside the bare protocol: the same stores and barriers, nothing
/// checked or claimed. For each site.
fn batch(
    policy: &Policy,
    size: &Size,
    pass: impl Fn() -> Result<(), BarrierError>,
) -> Result<(Blocks, Blocks), Box<dyn Error>> {
    const SITES: usize = 1000;
    let mut survey = Survey::new(*policy)?;
    let place = |i| Placement::Astride { boundary: 64, before: 1 + i % 4 };
    let benches: Vec<Bench> = (0..SITES)
        .map(|i| Bench::adopt(Shape::Move, place(i), &mut survey))
        .collect::<Result<_, _>>()?;
    let commit = |face: Face| {
        let mut batch = Batch::with_capacity(SITES);
        for bench in &benches {
            // SAFETY: (1) a face of the target's shape.
            unsafe { batch.push(&bench.site, bench.words[face as usize]) };
        }
        timed(|| batch.commit().expect("sites of our own")) / SITES as u64
    };
    let bare = |face: Face| {
        timed(|| {
            benches.iter().for_each(|bench| bench.step(Step::Trap, face, policy));
            pass().expect("the policy's barrier");
            benches.iter().for_each(|bench| bench.step(Step::Back, face, policy));
            if policy.order == FetchOrder::Any {
                pass().expect("the policy's barrier");
            }
            benches.iter().for_each(|bench| bench.step(Step::Front, face, policy));
        }) / SITES as u64
    };
    let targets: Vec<&Target> = benches.iter().map(|bench| &bench.target).collect();
    pairs(&targets, &Size { samples: 1, ..*size }, commit, bare)
}
