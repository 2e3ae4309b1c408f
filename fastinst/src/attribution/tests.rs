use super::*;

/// Functions 1, 2, 3 have probes and lie at 100, 200, 300 of mapping 0; mapping 1 is a library,
/// with functions at 0, 100, 200; what lies behind 90 of a hundred is behind a system call.
struct Map;

/// The mapping that hooks lie in.
const HOOKS: u32 = 9;

impl Code for Map {
    fn owner(&mut self, place: Place) -> Owner {
        let start = place.offset / 100;
        let functions: Vec<FuncId> =
            if place.mapping == 0 && start > 0 { vec![FuncId(start)] } else { Vec::new() };
        // Function 2 is inlined into function 1 from 150 on.
        let inlined = place.mapping == 0 && (150..190).contains(&place.offset);
        let functions = if inlined { vec![FuncId(2), FuncId(1)] } else { functions };
        let code = Place { mapping: place.mapping, offset: start * 100 };
        let is_kernel_exit = place.offset % 100 >= 90;
        Owner { functions: functions.into(), code, is_kernel_exit, is_hook: place.mapping == HOOKS }
    }
}

const fn at(mapping: u32, offset: u32) -> Place {
    Place { mapping, offset }
}

fn strand(processor: f64, seen: &[(Place, u32)]) -> Strand {
    let mut strand = Strand { processor, ..Strand::default() };
    seen.iter().for_each(|&(place, times)| (0..times).for_each(|_| strand.see(place)));
    strand
}

fn stacks(seen: &[(&[Place], u64)]) -> HashMap<Stack, u64> {
    seen.iter()
        .map(|&(places, times)| (Stack { places: places.into(), is_whole: true }, times))
        .collect()
}

fn observe(live: &[Strand], seen: &[(&[Place], u64)], user: UserTime) -> Attributed {
    let (ended, stacks) = (Ended::default(), stacks(seen));
    let live = live.iter().collect();
    attribute(
        &Observed {
            live,
            ended: &ended,
            residue: 0.0,
            unsampled: 0.0,
            brief: None,
            stacks: &stacks,
            user,
        },
        &mut Map,
    )
}

fn function(attributed: &Attributed, id: u32) -> ClockFunction {
    attributed
        .functions
        .iter()
        .copied()
        .find(|function| function.function == FuncId(id))
        .unwrap_or_default()
}

/// What must hold whatever was seen.
fn adds_up(attributed: &Attributed) {
    let innermost: f64 = attributed.functions.iter().map(|function| function.innermost).sum();
    let stacks: f64 = attributed.stacks.iter().map(|stack| stack.time).sum();
    let all = innermost + attributed.system + attributed.unknown;
    assert!(
        (all - attributed.processor).abs() <= 1e-6 * attributed.processor,
        "{all} of {attributed:?}"
    );
    assert!(
        (innermost - stacks).abs() <= 1e-6 * attributed.processor,
        "{stacks} of {attributed:?}"
    );
    for function in &attributed.functions {
        assert!(function.on_stack >= function.innermost * (1.0 - 1e-9), "{function:?}");
        assert!(function.on_stack <= attributed.processor * (1.0 + 1e-9), "{function:?}");
        assert!(function.elsewhere <= function.innermost * (1.0 + 1e-9), "{function:?}");
    }
}

#[test]
fn a_threads_samples_share_its_own_processor_time() {
    // A long thread that was sampled rarely, and a short one that was sampled often.
    let live =
        [strand(900.0, &[(at(0, 100), 1), (at(0, 200), 2)]), strand(100.0, &[(at(0, 300), 30)])];
    let attributed = observe(&live, &[], UserTime::AndSystem);
    adds_up(&attributed);
    let times: Vec<f64> = [1, 2, 3].map(|id| function(&attributed, id).innermost).to_vec();
    assert_eq!(times, [300.0, 600.0, 100.0]);
    assert_eq!((attributed.samples, function(&attributed, 3).samples), (33, 30));
}

#[test]
fn time_in_hooks_is_no_time_of_the_program() {
    let live = [strand(1000.0, &[(at(0, 110), 1), (at(HOOKS, 5), 6), (at(0, 210), 3)])];
    let seen: [(&[Place], u64); 2] =
        [(&[at(HOOKS, 5), at(0, 110)], 6), (&[at(0, 210), at(0, 110)], 3)];
    let attributed = observe(&live, &seen, UserTime::AndSystem);
    adds_up(&attributed);
    assert!((attributed.processor - 400.0).abs() < 1e-9 && attributed.samples == 4);
    let times =
        [1, 2].map(|id| function(&attributed, id)).map(|seen| (seen.innermost, seen.on_stack));
    // The order in which samples are added differs from run to run.
    let times = times.map(|(innermost, on_stack)| (innermost.round(), on_stack.round()));
    assert_eq!(times, [(100.0, 400.0), (300.0, 300.0)]);
}

#[test]
fn time_in_a_library_belongs_to_the_nearest_callers_with_probes() {
    let live = [strand(1000.0, &[(at(0, 110), 5), (at(1, 5), 5)])];
    // Called by function 1 three times out of four, by function 2 else; both by function 3.
    let (one, two) = ([at(1, 7), at(0, 120), at(0, 300)], [at(1, 9), at(0, 210), at(0, 300)]);
    let attributed = observe(&live, &[(&one, 3), (&two, 1)], UserTime::AndSystem);
    adds_up(&attributed);
    let [first, second, third] = [1, 2, 3].map(|id| function(&attributed, id));
    assert_eq!((first.innermost, first.elsewhere), (500.0 + 375.0, 375.0));
    assert_eq!((second.innermost, second.elsewhere, second.on_stack), (125.0, 125.0, 125.0));
    assert_eq!((third.innermost, third.on_stack, third.stack_samples), (0.0, 500.0, 4));
}

#[test]
fn few_stacks_say_little_about_the_callers_of_a_library() {
    let live = [strand(1000.0, &[(at(0, 110), 5), (at(1, 5), 5)])];
    // Of the stacks in the function at 0 of the library function 1 called three, function 2 one;
    // function 3 was seen to call another one.
    let (one, two) = ([at(1, 7), at(0, 120)], [at(1, 9), at(0, 210)]);
    let three = [at(1, 105), at(0, 310)];
    let deviations = |times: u64| {
        let seen: [(&[Place], u64); 3] = [(&one, 3 * times), (&two, times), (&three, times)];
        let attributed = observe(&live, &seen, UserTime::AndSystem);
        adds_up(&attributed);
        [1, 2, 3].map(|id| function(&attributed, id).deviation)
    };
    let [first, second, third] = deviations(1);
    let of = |share: f64, count: f64| 500.0 * (share * (1.0 - share) / count).sqrt();
    assert!((first - of(5.0 / 8.0, 8.0)).abs() < 1e-9, "{first}");
    assert!((second - of(3.0 / 8.0, 8.0)).abs() < 1e-9, "{second}");
    assert!((third - of(2.0 / 8.0, 8.0)).abs() < 1e-9, "{third}");
    assert!(deviations(1000).iter().all(|deviation| *deviation < 4.0));
    // Code with probes is its function's, whatever calls it.
    let own = observe(&[strand(100.0, &[(at(0, 110), 9)])], &[(&one, 3)], UserTime::AndSystem);
    assert_eq!(function(&own, 1).deviation, 0.0);
}

#[test]
fn code_of_a_library_that_no_stack_ends_in_is_divided_as_the_rest_of_it() {
    let live = [strand(100.0, &[(at(1, 205), 10)])];
    let attributed = observe(&live, &[(&[at(1, 7), at(0, 120)], 1)], UserTime::AndSystem);
    adds_up(&attributed);
    assert_eq!(function(&attributed, 1).elsewhere, 100.0);
    let other = observe(
        &[strand(100.0, &[(at(2, 5), 1)])],
        &[(&[at(1, 7), at(0, 120)], 1)],
        UserTime::AndSystem,
    );
    adds_up(&other);
    assert_eq!(other.unknown, 100.0);
}

#[test]
fn a_stack_that_was_cut_short_before_any_probe_says_nothing() {
    let live = [strand(100.0, &[(at(1, 5), 10)])];
    let ended = Ended::default();
    let mut seen = stacks(&[(&[at(1, 7), at(0, 120)], 1)]);
    seen.insert(Stack { places: [at(1, 8)].into(), is_whole: false }, 99);
    let user = UserTime::AndSystem;
    let observed = Observed {
        live: live.iter().collect(),
        ended: &ended,
        residue: 0.0,
        unsampled: 0.0,
        brief: None,
        stacks: &seen,
        user,
    };
    let cut = attribute(&observed, &mut Map);
    adds_up(&cut);
    assert_eq!(function(&cut, 1).innermost, 100.0);
    // Whole, and without a probe: a thread of a library's own.
    let whole =
        observe(&live, &[(&[at(1, 7), at(0, 120)], 1), (&[at(1, 8)], 3)], UserTime::AndSystem);
    adds_up(&whole);
    assert_eq!((function(&whole, 1).innermost, whole.unknown), (25.0, 75.0));
}

#[test]
fn inlined_functions_are_innermost_and_their_callers_on_the_stack() {
    let live = [strand(100.0, &[(at(0, 160), 3), (at(0, 110), 1)])];
    let attributed = observe(&live, &[(&[at(0, 170), at(0, 300)], 2)], UserTime::AndSystem);
    adds_up(&attributed);
    let [first, second, third] = [1, 2, 3].map(|id| function(&attributed, id));
    assert_eq!((first.innermost, second.innermost, third.innermost), (25.0, 75.0, 0.0));
    assert_eq!((first.on_stack, second.on_stack, third.on_stack), (100.0, 75.0, 75.0));
}

#[test]
fn recursion_is_on_the_stack_once() {
    let live = [strand(100.0, &[(at(0, 110), 1)])];
    let attributed =
        observe(&live, &[(&[at(0, 110), at(0, 120), at(0, 130)], 1)], UserTime::AndSystem);
    adds_up(&attributed);
    assert_eq!(
        (function(&attributed, 1).on_stack, function(&attributed, 1).stack_samples),
        (100.0, 1)
    );
}

#[test]
fn what_no_sample_stands_for_is_system_time() {
    // A period of 10: 39 samples of 1000 are user time, and the one that a thread's beginning owes.
    let live = [strand(1000.0, &[(at(0, 110), 39)])];
    let attributed = observe(&live, &[], UserTime::Sampled { period: 10.0 });
    adds_up(&attributed);
    assert!((attributed.system - 600.0).abs() < 1e-6, "{}", attributed.system);
    // Ten of them were found at the kernel's door.
    let live = [strand(1000.0, &[(at(0, 110), 29), (at(1, 95), 10)])];
    let attributed = observe(&live, &[], UserTime::Sampled { period: 10.0 });
    adds_up(&attributed);
    assert!(
        (function(&attributed, 1).innermost - 400.0 * 29.0 / 39.0).abs() < 1e-6,
        "{attributed:?}"
    );
    let told = observe(&live, &[], UserTime::Share(0.5));
    adds_up(&told);
    assert!((function(&told, 1).innermost - 500.0 * 29.0 / 39.0).abs() < 1e-6, "{told:?}");
}

#[test]
fn threads_that_have_ended_keep_their_time_and_their_last_moments() {
    let mut ended = Ended::default();
    ended.add(&strand(300.0, &[(at(0, 110), 3)]));
    ended.add(&strand(100.0, &[(at(0, 210), 50)]));
    ended.add(&strand(7.0, &[]));
    let none = HashMap::new();
    let user = UserTime::AndSystem;
    let observed = Observed {
        live: Vec::new(),
        ended: &ended,
        residue: 40.0,
        unsampled: 5.0,
        brief: None,
        stacks: &none,
        user,
    };
    let attributed = attribute(&observed, &mut Map);
    adds_up(&attributed);
    assert_eq!((attributed.processor, attributed.unknown), (452.0, 12.0));
    assert_eq!(
        (function(&attributed, 1).innermost, function(&attributed, 2).innermost),
        (330.0, 110.0)
    );
}

#[test]
fn the_time_of_threads_that_the_clock_misses_is_shared_by_what_bursts_have_seen_of_them() {
    let (ended, none) = (Ended::default(), HashMap::new());
    let live = [strand(100.0, &[(at(0, 210), 2)])];
    let places = [(at(0, 110), 30), (at(0, 210), 10), (at(HOOKS, 5), 10), (at(5, 0), 50)].into();
    let brief = Brief { places, seen: 100, samples: 20, user: UserTime::AndSystem };
    let mut observed = Observed {
        live: live.iter().collect(),
        ended: &ended,
        residue: 0.0,
        unsampled: 1000.0,
        brief: Some(brief),
        stacks: &none,
        user: UserTime::AndSystem,
    };
    let attributed = attribute(&observed, &mut Map);
    adds_up(&attributed);
    // The order in which samples are added differs from run to run.
    let both = |attributed: &Attributed| (attributed.processor.round(), attributed.unknown.round());
    assert_eq!(both(&attributed), (1000.0, 500.0));
    let [first, second] = [1, 2].map(|id| function(&attributed, id));
    assert_eq!((first.innermost.round(), first.samples), (300.0, 6));
    assert_eq!((second.innermost.round(), second.samples, attributed.samples), (200.0, 4, 20));
    // Too little was seen to tell.
    observed.brief = None;
    let attributed = attribute(&observed, &mut Map);
    adds_up(&attributed);
    assert_eq!(both(&attributed), (1100.0, 1000.0));
}

#[test]
fn whatever_is_seen_adds_up() {
    let mut state = 1u64;
    let mut random = |below: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as u32) % below
    };
    for _ in 0..200 {
        let place = |random: &mut dyn FnMut(u32) -> u32| at(random(3), random(400));
        let live: Vec<Strand> = (0..random(4))
            .map(|_| {
                let seen: Vec<_> =
                    (0..random(6)).map(|_| (place(&mut random), random(9))).collect();
                strand(f64::from(random(1000)) + 1.0, &seen)
            })
            .collect();
        let seen: Vec<(Vec<Place>, u64)> = (0..random(9))
            .map(|_| {
                ((0..=random(5)).map(|_| place(&mut random)).collect(), u64::from(random(5)) + 1)
            })
            .collect();
        let seen: Vec<(&[Place], u64)> =
            seen.iter().map(|(places, times)| (&places[..], *times)).collect();
        for user in [UserTime::AndSystem, UserTime::Sampled { period: 20.0 }, UserTime::Share(0.3)]
        {
            adds_up(&observe(&live, &seen, user));
        }
    }
}

#[test]
fn unknown_time_may_be_any_functions_unless_a_whole_stack_shows_that_it_is_none() {
    let (known, unseen) = (at(1, 100), at(2, 100));
    let live = [strand(1000.0, &[(at(0, 110), 5), (known, 3), (unseen, 2)])];
    let seen: [(&[Place], u64); 1] = [(&[known, at(0, 10)], 4)];
    let attributed = observe(&live, &seen, UserTime::AndSystem);
    adds_up(&attributed);
    assert_eq!((attributed.unknown.round(), attributed.unplaced.round()), (500.0, 200.0));
}
