//! Everything at once.

use super::support::*;
use super::trial::*;
use serde_json::Value;

#[test]
fn an_agent_that_is_kept_from_running_in_the_middle_of_its_round_loses_no_call() {
    let Some(brake) =
        Trial::of("brake.c", &["-O1", "-shared", "-fPIC", "-fno-instrument-functions"])
    else {
        return;
    };
    let Some(trial) = Trial::of("frames.c", &["-O0"]) else { return };
    let (truth, plain) = (counted(&trial.program, &[]), trial.plain());
    // The constructor of the last library is called first.
    let preload = format!("{}:{}", library().display(), brake.program.display());
    for policy in ["exact", "count"] {
        for _ in 0..20 {
            let profiles = trial.behaves_as(&plain, policy, |command| {
                command.env("LD_PRELOAD", &preload);
            });
            assert_eq!(exact_calls(&profiles[0]), truth, "{policy}");
        }
    }
}

#[test]
fn threads_libraries_children_and_signals_all_at_once_are_counted_exactly() {
    const ROUNDS: usize = 10;
    let Some(trial) = Trial::of("storm.c", &["-O0"]) else { return };
    let plugins: Option<Vec<Trial>> =
        (0..ROUNDS).map(|_| Trial::of("plugin.c", &["-O2", "-shared", "-fPIC"])).collect();
    let Some(plugins) = plugins else { return };
    let tally = trial.to.join("tally");
    let mut args = vec![tally.clone().into_os_string(), ROUNDS.to_string().into()];
    args.extend(plugins.iter().map(|plugin| plugin.program.clone().into_os_string()));
    let trial = trial.told(&args);
    let plain = trial.plain();
    let per_round =
        [("inner", 4), ("leaf", 8), ("down", 21), ("plugin", 3), ("plugged", 150), ("pass", 1)];
    for run in 0..40 {
        let policy = ["exact", "count"][run % 2];
        let mut profiles = trial.behaves_as(&plain, policy, |_| ());
        let told: f64 = std::fs::read_to_string(&tally).unwrap().trim().parse().unwrap();
        let parent = profiles
            .iter()
            .position(|profile| all_calls(std::slice::from_ref(profile), "main") == 1.0);
        let parent = profiles.swap_remove(parent.unwrap());
        for (name, calls) in per_round {
            assert_eq!(
                calls_of(&parent, name),
                (calls * ROUNDS) as f64,
                "{name} under {policy}, run {run}"
            );
        }
        assert_eq!(calls_of(&parent, "tell"), told, "{policy}, run {run}");
        assert_eq!(profiles.len(), ROUNDS, "{policy}, run {run}");
        for child in &profiles {
            // Whether a library was there already depends on which thread was faster.
            let plugged = calls_of(child, "plugin");
            let found = ["inner", "leaf", "down", "plugged"].map(|name| calls_of(child, name));
            assert_eq!(
                found,
                [10.0, 20.0, 2001.0, 20.0 * plugged],
                "a child under {policy}, run {run}"
            );
        }
    }
}

fn calls_of(profile: &Value, name: &str) -> f64 {
    all_calls(std::slice::from_ref(profile), name)
}
