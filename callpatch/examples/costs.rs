//! The costs of switching and retargeting on this machine, while a thread on another core executes
//! the site, each with its baseline in the same run: `cargo run --release -p callpatch --example
//! costs`. Medians, in ticks.
#![allow(unsafe_code)]

use callpatch::{
    Act, Begun, CallSite, Destination, Form, Islands, Owner, Ownership, ProbeState, Retarget, Role,
    SetError, Strategy, Survey, Switch, set_all,
};
use std::error::Error;
use std::hint::black_box;
use tmax::storm::{Budget, Face, Placement, Shape, Storm, Target};
use wordpatch::live::{self, Width};
use wordpatch::{CodeAddr, CodeMemory, Granule, Policy, Ticks};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TOGGLES: u64 = 40_000;

fn timed<T>(act: impl FnOnce() -> T) -> u64 {
    let start = Ticks::now();
    black_box(act());
    Ticks::now().since(start).0
}

#[derive(Default)]
struct Samples(Vec<u64>);

impl Samples {
    fn at(&mut self, share: f64) -> u64 {
        self.0.sort_unstable();
        self.0.get((self.0.len() as f64 * share) as usize).copied().unwrap_or(0)
    }
}

fn print(name: &str, samples: &mut Samples) {
    println!("{name:32} {:>8} {:>8}   n = {}", samples.at(0.5), samples.at(0.99), samples.0.len());
}

fn pad(target: &Target, face: Face) -> CodeAddr {
    let [_, a, b, c, d] = *Shape::Call.bytes(face) else { unreachable!("a call has five bytes") };
    Form::Call.destination(target.word_at(), i32::from_le_bytes([a, b, c, d]))
}

fn adopt(target: &Target, survey: &mut Survey) -> Result<CallSite> {
    let hook = Destination::Code(pad(target, Face::Old));
    // SAFETY: (1) to (4): the target outlives the site, and only this thread writes to it; (5) its
    // pads are functions.
    Ok(unsafe { survey.adopt(target.word_at(), Role::Call, |to| to == hook)? })
}

fn switch(face: Face) -> Switch {
    if face == Face::New { Switch::Off } else { Switch::On }
}

/// Times `subject` and `baseline` in turn, while a thread executes the target.
fn beside(
    target: &Target,
    names: [&str; 2],
    mut subject: impl FnMut(Face) -> u64,
    mut baseline: impl FnMut(Face) -> u64,
) -> Result<()> {
    let mut samples = [Samples::default(), Samples::default()];
    let mut n = 0u64;
    Storm::new()?.run(target, Budget::toggles(TOGGLES), |face| {
        // Both faces by the subject, then both by the baseline.
        let which = usize::from(n & 2 != 0);
        n += 1;
        samples[which].0.push(if which == 0 { subject(face) } else { baseline(face) });
    })?;
    names.iter().zip(&mut samples).for_each(|(name, samples)| print(name, samples));
    Ok(())
}

fn main() -> Result<()> {
    let policy = Policy::new()?;
    let mut survey = Survey::new(policy)?;
    println!("{:32} {:>8} {:>8}", "", "median", "p99");
    print("taking the time", &mut Samples((0..TOGGLES).map(|_| timed(|| ())).collect()));

    let target = Target::new(Shape::Call, Placement::Astride { boundary: 64, before: 2 })?;
    let site = adopt(&target, &mut survey)?;
    let byte = |face| target.store(0, Width::One, if face == Face::New { 0xa9 } else { 0xe8 });
    let set = |face| site.set(switch(face)).expect("our own site");
    beside(
        &target,
        ["set/issued", "store/issued"],
        |face| timed(|| set(face)),
        |face| timed(|| byte(face)),
    )?;
    let visible = ["set/visible", "store + fence"];
    beside(
        &target,
        visible,
        |face| timed(|| (set(face), live::fence())),
        |face| timed(|| (byte(face), live::fence())),
    )?;

    let ownership = Ownership::new(ProbeState::On);
    let act = |face| {
        let act = if face == Face::New { Act::Retire(ownership.term()) } else { Act::Rearm };
        ownership.act(act, |to| site.set(to)).expect("our own site")
    };
    beside(
        &target,
        ["ownership + set/issued", "store/issued"],
        |face| timed(|| act(face)),
        |face| timed(|| byte(face)),
    )?;

    let mut moved = adopt(&target, &mut survey)?;
    let retarget = |face| {
        // SAFETY: (1) a pad is a function; (2) the target stays mapped.
        timed(|| unsafe { moved.retarget(pad(&target, face), &policy) }.expect("our own site"))
    };
    beside(&target, ["retarget", "barrier"], retarget, |_| timed(|| policy.barrier.pass()))?;

    let paper = Policy { granule: Granule::LINE, ..policy };
    for before in [1, 2] {
        let target = Target::new(Shape::Call, Placement::Astride { boundary: 64, before })?;
        let ret = Islands::near(target.word_at()..target.word_at().offset(5))
            .and_then(|mut islands| Ok((islands.ret()?, islands)))?;
        let site =
            adopt(&target, &mut Survey::new(paper)?.with_strategy(Strategy::Paper { ret: ret.0 }))?;
        let set = |face| timed(|| (site.set(switch(face)).expect("our own site"), live::fence()));
        let name = format!("paper {before}|{}/visible", 5 - before);
        beside(&target, [&name, "(the same)"], set, set)?;
    }
    many(policy)
}

fn taken(begun: Begun<'_>) -> Option<Owner<'_>> {
    if let Begun::Owner(owner) = begun { Some(owner) } else { None }
}

/// Twenty thousand sites that no thread executes.
fn many(policy: Policy) -> Result<()> {
    const SITES: usize = 20_000;
    const ROOM: usize = 32;
    let mut memory = CodeMemory::new(SITES * ROOM)?;
    let hook = memory.base();
    for n in 1..SITES {
        let at = n * ROOM + n % 27;
        memory.write(
            at,
            &Form::Call
                .bytes(Form::Call.displacement(hook.offset(at as isize), hook).expect("near")),
        );
    }
    let mut survey = Survey::new(policy)?;
    let start = Ticks::now();
    let address = |n: usize| hook.offset((n * ROOM + n % 27) as isize);
    // SAFETY: (1) to (5): no thread executes the calls.
    let adopt =
        |n| unsafe { survey.adopt(address(n), Role::Call, |to| to == Destination::Code(hook)) };
    let mut sites = (1..SITES).map(adopt).collect::<std::result::Result<Vec<_>, _>>()?;
    let each = |ticks: Ticks| ticks.0 as f64 / SITES as f64;
    println!("adopt, each of {SITES}            {:>8.1}", each(Ticks::now().since(start)));
    for (name, to) in [("off", Switch::Off), ("on", Switch::On)].repeat(3) {
        let start = Ticks::now();
        let switched = set_all(&sites, to);
        println!("set_all {name:3}, each               {:>8.1}", each(Ticks::now().since(start)));
        assert_eq!(switched.changed, SITES - 1);
    }
    let mut batch = Retarget::new(policy);
    for site in &mut sites {
        // SAFETY: (1) no thread executes it; (2) mapped.
        unsafe { batch.push(site, hook.offset(64))? };
    }
    let start = Ticks::now();
    batch.commit()?;
    println!("retarget, each                   {:>8.1}", each(Ticks::now().since(start)));
    let ownerships: Vec<Ownership> =
        (1..SITES).map(|_| Ownership::new(ProbeState::Retired)).collect();
    set_all(&sites, Switch::Off);
    let start = Ticks::now();
    for (ownership, site) in ownerships.iter().zip(&sites) {
        let _ = ownership.act(Act::Rearm, |to| site.set(to))?;
    }
    println!("rearm with ownership, each         {:>8.1}", each(Ticks::now().since(start)));
    let _ = ownerships
        .iter()
        .map(|ownership| ownership.act(Act::Disable, |_| Ok::<(), SetError>(())))
        .collect::<Vec<_>>();
    set_all(&sites, Switch::Off);
    let start = Ticks::now();
    let owners: Vec<Owner<'_>> =
        ownerships.iter().filter_map(|ownership| taken(ownership.begin_act(Act::Enable))).collect();
    set_all(&sites, Switch::On);
    owners
        .into_iter()
        .zip(&sites)
        .try_for_each(|(owner, site)| owner.release(|to| site.set(to)))?;
    println!("the same in bulk, each           {:>8.1}", each(Ticks::now().since(start)));
    Ok(())
}
