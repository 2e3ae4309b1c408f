//! The cost of having probes at all (table 1): finding and planting them, before the program's own
//! code runs.
//!
//! A program with twenty thousand probes that does nothing is run with and without the preload
//! library, in turn. The whole difference counts: finding the sites, making trampolines, the
//! agent's thread, writing the profile.
//!
//! | row | what |
//! |---|---|
//! | `init/cpu` | CPU time, user and system, beside the bare program |
//! | `init/wall` | the delay of its end |
//! | `init/site` | the difference of CPU time, per probe |
//! | `init/ticks` | the same in ticks of the counter |
//! | `init/memory` | memory that became resident |

use crate::probes::{self, PROBES, Probes};
use crate::report::{Report, Row};
use crate::sample::{Blocks, Ratio};
use crate::table2::ticks_per_ns;
use std::error::Error;
use std::process::Command;

pub(crate) fn measure(quick: bool) -> Result<Report, Box<dyn Error>> {
    let probes = Probes::build()?;
    let mut report = Report::new("table1");
    let (mut cpu, mut wall) =
        ([Blocks::default(), Blocks::default()], [Blocks::default(), Blocks::default()]);
    let mut resident = [u64::MAX; 2];
    for _ in 0..if quick { 15 } else { 60 } {
        for preloaded in [true, false] {
            let mut command = Command::new(&probes.probed);
            command.arg("nothing");
            if preloaded {
                probes.observe(&mut command, "adaptive")?;
            }
            let outcome = probes::run(&mut command)?;
            let at = usize::from(!preloaded);
            for (blocks, time) in [(&mut cpu[at], outcome.cpu), (&mut wall[at], outcome.wall)] {
                blocks.push(time.as_micros() as u64);
                blocks.close();
            }
            resident[at] = resident[at].min(outcome.resident);
        }
    }
    let ratio = |[subject, baseline]: &[Blocks; 2]| {
        Ratio::of(subject, baseline, 0.0).ok_or("nothing was measured")
    };
    let (cpu, wall) = (ratio(&cpu)?, ratio(&wall)?);
    report.rows.push(Row::compared("init/cpu", "us", &cpu));
    report.rows.push(Row::compared("init/wall", "us", &wall));
    let site = (cpu.value - cpu.baseline) * 1e3 / PROBES as f64;
    report.rows.push(Row::plain("init/site", site, "ns", cpu.pairs));
    report.rows.push(Row::plain("init/ticks", site * ticks_per_ns(), "ticks", cpu.pairs));
    report.rows.push(Row::plain(
        "init/memory",
        (resident[0] - resident[1]) as f64 / 1e6,
        "MB",
        cpu.pairs,
    ));
    report.notes.push(format!(
        "{PROBES} probes; everything from the start of the process to its end is counted."
    ));
    Ok(report)
}
