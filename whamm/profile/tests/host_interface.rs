//! The host interface `prof`: its imports, and when arcs are sent.

use wasmi::{Caller, Engine, Extern, Linker, Module, Store};
use whamm_profile::{Error, Options, profile};

const PROGRAM: &str = r#"(module (import "host" "back" (func $back))
    (func $leaf) (func $f (call $leaf) (call $leaf))
    (func (export "g") (call $f))
    (func (export "main") (call $f) (call $back)))"#;

/// The host's log: an event for each call.
#[derive(Debug, Default)]
struct Told {
    time: f64,
    events: Vec<String>,
}

fn run(options: &Options) -> Vec<String> {
    let module = wat::parse_str(PROGRAM).expect("it is text");
    let module = profile(&module, options).unwrap_or_else(|e| panic!("{e}")).module;
    let engine = Engine::default();
    let module = Module::new(&engine, module).unwrap_or_else(|e| panic!("{e}"));
    let mut store = Store::new(&engine, Told::default());
    let mut linker = Linker::new(&engine);
    let set = |mut caller: Caller<'_, Told>, from: i32, to: i32, count: i32, time: f64| {
        caller.data_mut().events.push(format!("{from}>{to} {count} {time}"));
    };
    let add = |_: Caller<'_, Told>, _: i32, _: i32, _: i32, _: f64| {};
    let time = |mut caller: Caller<'_, Told>| -> f64 {
        caller.data_mut().time += 0.5;
        caller.data().time
    };
    let said = |what: &'static str| {
        move |mut caller: Caller<'_, Told>| caller.data_mut().events.push(what.to_owned())
    };
    let back = |mut caller: Caller<'_, Told>| -> Result<(), wasmi::Error> {
        let g = caller.get_export("g").and_then(Extern::into_func).expect("exported");
        g.call(&mut caller, &[], &mut [])
    };
    let defined = [
        linker.func_wrap("host", "back", back).is_ok(),
        linker.func_wrap("prof", "getTime", time).is_ok(),
        linker.func_wrap("prof", "setArcData", set).is_ok(),
        linker.func_wrap("prof", "addArcData", add).is_ok(),
        linker.func_wrap("prof", "clearResults", said("clear")).is_ok(),
        linker.func_wrap("prof", "printResults", said("print")).is_ok(),
    ];
    assert!(defined.iter().all(|is_defined| *is_defined));
    let instance =
        linker.instantiate_and_start(&mut store, &module).unwrap_or_else(|e| panic!("{e}"));
    let main = instance.get_typed_func::<(), ()>(&store, "main").expect("exported");
    main.call(&mut store, ()).unwrap_or_else(|e| panic!("{e}"));
    let at_the_end = store.data().events.len();
    let export = instance.get_typed_func::<(), ()>(&store, "exportData").expect("exported");
    export.call(&mut store, ()).unwrap_or_else(|e| panic!("{e}"));
    let events = std::mem::take(&mut store.data_mut().events);
    // The same again, except that the host is not requested to clear its data.
    let again = &events[at_the_end..];
    assert_eq!(again, &events[1..at_the_end], "{events:?}");
    events[..at_the_end].to_vec()
}

/// Arcs without their times.
fn arcs(events: &[String]) -> Vec<String> {
    let mut arcs: Vec<String> = events
        .iter()
        .filter(|event| event.contains('>'))
        .map(|event| event.rsplit_once(' ').expect("a time").0.to_owned())
        .collect();
    arcs.sort();
    arcs
}

#[test]
fn arcs_are_sent_when_a_top_level_function_returns() {
    let options = Options { host_api: true, ..Options::default() };
    let events = run(&options);
    // 1 is the host's function, 2 the leaf, 3 f, 4 g, 5 main: only main is called from outside.
    assert_eq!(arcs(&events), ["0>5 1", "1>4 1", "3>2 4", "4>3 1", "5>1 1", "5>3 1"]);
    assert_eq!(events.iter().filter(|event| *event == "clear").count(), 1);
    assert_eq!(events[0], "clear");
    assert!(!events.contains(&"print".to_owned()));
    let printing = run(&Options { force_print: true, ..options });
    assert_eq!(printing.last().map(String::as_str), Some("print"));
}

#[test]
fn own_times_follow_from_arcs() {
    let options = Options { host_api: true, time_all: true, ..Options::default() };
    let events = run(&options);
    let mut own = [0.0; 6];
    for event in events.iter().filter(|event| event.contains('>')) {
        let (arc, time) = event.rsplit_once(' ').expect("a time");
        let (from, to) = arc.split_once(' ').expect("a count").0.split_once('>').expect("two");
        let time: f64 = time.parse().expect("a number");
        let index = |text: &str| text.parse::<usize>().expect("a number");
        own[index(to)] += time;
        own[index(from)] -= time;
    }
    assert!(own[1..].iter().all(|own| *own >= 0.0), "{own:?}");
    assert!((own.iter().sum::<f64>()).abs() < 1e-9, "{own:?}");
}

#[test]
fn a_file_and_the_host_are_not_both_possible() {
    let module = wat::parse_str(PROGRAM).expect("it is text");
    let file = Some("p.profile".to_owned());
    let options = Options { host_api: true, file, ..Options::default() };
    assert!(matches!(profile(&module, &options), Err(Error::File(_))));
    let taken = wat::parse_str(r#"(module (func (export "exportData")))"#).expect("it is text");
    let options = Options { file: None, ..options };
    assert!(matches!(profile(&taken, &options), Err(Error::Again(_))));
}
