use super::*;
use Effects::{More, Nothing, Once, Ordered, Sums, SumsAndOnce};

/// Code that is about to be made, and can be patched; the same that cannot, that is there, that
/// runs, that counts, and where calls were asked for.
const EARLY: Capabilities =
    Capabilities { time: Time::Early, patches: true, counts: false, inlines: true };
const FIXED: Capabilities = Capabilities { patches: false, ..EARLY };
const COMPILED: Capabilities = Capabilities { time: Time::Compiled, ..EARLY };
const RUNNING: Capabilities = Capabilities { time: Time::Running, ..EARLY };
const COUNTS: Capabilities = Capabilities { counts: true, ..EARLY };
const DIRECT: Capabilities = Capabilities { inlines: false, ..EARLY };

/// A module's functions do that at some place, and nothing special is asked for.
fn module(effects: Effects) -> Functions {
    Functions { effects, places: 1, ..Functions::default() }
}

fn more() -> Functions {
    module(More("wasm:opcode:call".into()))
}

/// What becomes of a monitor, in a few words.
fn lowered(facts: Facts, code: Capabilities) -> String {
    words(&lower(&[facts], &code)[0])
}

fn words(lowering: &Lowering) -> String {
    let action = match lowering.action {
        Action::Nothing(_) => "nothing",
        Action::Count(_) => "count",
        Action::OneShot { counts: false, .. } => "note",
        Action::OneShot { counts: true, .. } => "note and count",
        Action::Hooks(_) => "hooks",
        Action::Guest { is_inlined: true, .. } => "inline",
        Action::Guest { is_inlined: false, .. } => "call",
        Action::Host(_) => "host",
    };
    let gate = match lowering.gate {
        Gate::Always(_) => "always".to_owned(),
        Gate::Once(_) => "once".to_owned(),
        Gate::Word { is_budget, is_patched, is_pruned, .. } => {
            let each = [(is_budget, "budget"), (is_patched, "patched"), (is_pruned, "pruned")];
            let each = each.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| format!(" {word}"));
            format!("word{}", each.collect::<String>())
        }
    };
    format!("{action}, {gate}, {}", if lowering.is_apart() { "apart" } else { "own" })
}

#[test]
fn each_monitor_is_lowered_to_the_cheapest_that_does() {
    use Facts::{Counts, Functions as Module, Hooks as Built, OneShots};
    let toggled = |effects| Module(Functions { is_toggled: true, ..module(effects) });
    let limited = |effects| Module(Functions { is_limited: true, ..module(effects) });
    let contained = |effects| Module(Functions { is_contained: true, ..module(effects) });
    let removes = |of: Functions| Module(Functions { removes: true, ..of });
    let threaded = |of: Functions| Module(Functions { is_threaded: true, ..of });
    let inserts = || Module(Functions { inserts: true, ..module(Sums) });
    let listens = || Module(Functions { listens: true, ..module(Sums) });
    let table: Vec<(Facts, Capabilities, &str)> = vec![
        // Built in.
        (Counts, EARLY, "count, always, own"),
        (Counts, RUNNING, "count, always, apart"),
        (OneShots, EARLY, "note, once, own"),
        (OneShots, RUNNING, "note, once, apart"),
        (Built(Hooks::default()), EARLY, "hooks, always, apart"),
        (Built(Hooks::default()), RUNNING, "hooks, always, apart"),
        (Built(Hooks::default()), FIXED, "hooks, always, own"),
        // Modules that are not switched.
        (Module(module(Nothing)), EARLY, "nothing, always, own"),
        (Module(module(Sums)), EARLY, "count, always, own"),
        (Module(module(Sums)), FIXED, "count, always, own"),
        (Module(module(Sums)), COMPILED, "count, always, own"),
        (Module(module(Once)), EARLY, "note, once, own"),
        (Module(module(SumsAndOnce)), EARLY, "note and count, once, own"),
        (Module(more()), EARLY, "inline, always, own"),
        (Module(more()), COMPILED, "inline, always, own"),
        (Module(module(Ordered)), EARLY, "inline, always, own"),
        (Module(module(Sums)), DIRECT, "call, always, own"),
        (listens(), EARLY, "inline, always, own"),
        (threaded(more()), EARLY, "inline, always, own"),
        // Those that switch themselves.
        (removes(module(Once)), EARLY, "note, once, own"),
        (removes(more()), EARLY, "inline, word patched pruned, own"),
        (removes(more()), FIXED, "inline, word, own"),
        (removes(more()), COMPILED, "inline, word patched pruned, apart"),
        (inserts(), EARLY, "inline, word patched pruned, own"),
        // Those that may be switched.
        (toggled(Nothing), EARLY, "nothing, always, apart"),
        (toggled(Sums), EARLY, "count, always, apart"),
        (toggled(Sums), FIXED, "inline, word, own"),
        (toggled(Once), EARLY, "inline, word patched, apart"),
        (toggled(SumsAndOnce), EARLY, "inline, word patched, apart"),
        (toggled(More("f".into())), EARLY, "inline, word patched, apart"),
        (toggled(More("f".into())), DIRECT, "call, word patched, apart"),
        (limited(Sums), EARLY, "inline, word budget patched pruned, own"),
        (limited(Sums), COMPILED, "inline, word budget patched pruned, apart"),
        (contained(Sums), EARLY, "host, word patched pruned, own"),
        (threaded(Functions { is_toggled: true, ..more() }), EARLY, "inline, word patched, own"),
        // Those that come late.
        (Module(module(Nothing)), RUNNING, "nothing, always, apart"),
        (Module(module(Sums)), RUNNING, "count, always, apart"),
        (Module(module(Once)), RUNNING, "inline, word patched, apart"),
        (Module(more()), RUNNING, "inline, word patched, apart"),
        (removes(more()), RUNNING, "inline, word patched pruned, apart"),
        (limited(Sums), RUNNING, "inline, word budget patched pruned, apart"),
        (contained(Sums), RUNNING, "host, word patched pruned, apart"),
    ];
    for (facts, code, expected) in table {
        assert_eq!(lowered(facts.clone(), code), expected, "{facts:?} in {code:?}");
    }
}

#[test]
fn few_additions_are_made_by_functions_if_nobody_else_has_the_program_counted() {
    let cheap = Some(Costs { calls: 10, counters: 100 });
    let dear = Some(Costs { calls: 100, counters: 10 });
    let adds = |costs| Facts::Functions(Functions { costs, ..module(Sums) });
    let once = |costs| Facts::Functions(Functions { costs, ..module(Once) });
    let both =
        |all: &[Facts], code: Capabilities| lower(all, &code).iter().map(words).collect::<Vec<_>>();
    let (called, counted) = ("inline, always, own", "count, always, own");
    assert_eq!(both(&[adds(cheap)], EARLY), [called]);
    assert_eq!(both(&[adds(dear)], EARLY), [counted]);
    // Several stores: what costs what is not known.
    assert_eq!(both(&[adds(None)], EARLY), [counted]);
    assert_eq!(both(&[adds(cheap)], COUNTS), [counted]);
    // One that needs counters has all others use them.
    assert_eq!(both(&[adds(cheap), adds(dear)], EARLY), [counted, counted]);
    assert_eq!(both(&[adds(cheap), adds(cheap)], EARLY), [called, called]);
    assert_eq!(both(&[adds(cheap), once(cheap)], EARLY), [called, "note, once, own"]);
    assert_eq!(both(&[adds(cheap), Facts::Functions(more())], EARLY), [called, called]);
}

#[test]
fn what_cannot_be_had_is_refused_with_the_reason() {
    let threaded = |of: Functions| Functions { is_threaded: true, ..of };
    let refused = |of: Functions, code: Capabilities| admit(&Facts::Functions(of), &code).err();
    let why = |refusal: Option<Refusal>| match refusal {
        Some(Refusal::Threads(why)) => why,
        other => format!("{other:?}"),
    };
    assert_eq!(refused(more(), EARLY), None);
    assert_eq!(refused(more(), Capabilities { patches: false, ..RUNNING }), Some(Refusal::NoSites));
    assert_eq!(refused(threaded(more()), EARLY), None);
    assert!(why(refused(threaded(more()), RUNNING)).contains("before the program is compiled"));
    let inserts = Functions { inserts: true, ..more() };
    assert!(why(refused(threaded(inserts), EARLY)).contains("inserts itself"));
    let unmergeable = Functions { unmergeable: Some("no sums".into()), ..more() };
    assert_eq!(why(refused(threaded(unmergeable.clone()), EARLY)), "no sums");
    assert_eq!(refused(unmergeable, EARLY), None);
    let contained = Functions { is_contained: true, ..more() };
    assert!(why(refused(threaded(contained.clone()), EARLY)).contains("on-trap=off"));
    let replaces = Functions { replaces: true, ..contained.clone() };
    assert_eq!(refused(replaces, EARLY), Some(Refusal::Replaces));
    let slots = Functions { keeps_slots: true, ..contained };
    assert_eq!(refused(slots, EARLY), Some(Refusal::KeepsSlots));
    let built = |hooks: Hooks, code| admit(&Facts::Hooks(hooks), &code).err();
    let (floods, early) =
        (Hooks { floods: true, ..Hooks::default() }, Hooks { is_early: true, ..Hooks::default() });
    assert_eq!((built(floods, EARLY), built(early, EARLY)), (None, None));
    assert_eq!(built(floods, RUNNING), Some(Refusal::Floods));
    assert_eq!(built(early, RUNNING), Some(Refusal::Early));
}

#[test]
fn why_it_is_no_cheaper_one_is_told() {
    let why = |of: Functions, code| {
        let lowered = lower(&[Facts::Functions(of)], &code).swap_remove(0);
        lowered.reasons.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(why(module(Sums), EARLY), "");
    assert!(why(more(), EARLY).contains("wasm:opcode:call does more"));
    assert!(why(module(Once), RUNNING).contains("can be switched on again"));
    assert!(why(module(Sums), DIRECT).contains("calls were asked for"));
    let limited = Functions { is_limited: true, ..module(Sums) };
    assert!(why(limited, EARLY).contains("calls=N"));
    let threaded = Functions { is_threaded: true, is_toggled: true, ..more() };
    assert!(why(threaded, EARLY).contains("each thread has an instance"));
    let costs = Some(Costs { calls: 10, counters: 100 });
    let cheap = Functions { costs, ..module(Sums) };
    assert!(why(cheap, EARLY).contains("10 to 100"));
}

/// The definitions that this file has taken the place of.
#[test]
fn nobody_else_decides() {
    const GONE: [&str; 16] = [
        "is_switched",
        "is_switched_from_outside",
        "is_toggled",
        "changes_by_itself",
        "inserts",
        "keeps_slots",
        "is_for_one_thread",
        "has_threads",
        "is_alone",
        "starts_on",
        "can_attach",
        "has_sites",
        "needs_counts",
        "calls_take_less",
        "rests",
        "can_rest_on",
    ];
    let house = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<_> =
        ["engine/src", "instrument/src", "src"].iter().map(|folder| house.join(folder)).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && !path.components().any(|part| part.as_os_str() == "lower")
                && path.file_name() != Some("lower.rs".as_ref())
            {
                let text = std::fs::read_to_string(&path).expect("text");
                let defines = |name: &&&str| text.contains(&format!("fn {name}("));
                found.extend(GONE.iter().filter(defines).map(|name| (path.clone(), *name)));
            }
        }
    }
    assert_eq!(found, []);
}
