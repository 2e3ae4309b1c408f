//! The hostility run: programs in difficult environments, without and with the preload library.
//!
//! A row is a situation under a policy, with the number of profiles; its ratio is 0 if the program
//! behaved as without the library, and 1 if not. Notes list the faults, and the situations that
//! cannot be tested here.

use crate::corpus;
use crate::progress::Progress;
use crate::report::{Report, Row};
use std::error::Error;
use tests::hostility::{Arena, Verdict, open, situations};

pub(crate) fn measure(wanted: &[String]) -> Result<Report, Box<dyn Error>> {
    let is_wanted =
        |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    let known: Vec<&str> = open().map(|situation| situation.name).collect();
    let all: Vec<_> =
        situations().chain(open()).filter(|situation| is_wanted(situation.name)).collect();
    let arena = Arena::new(&corpus::folder()?)?;
    let progress = Progress::new(all.len() as u64)?;
    let mut report = Report::new("hostility");
    let (mut green, mut met) = (0, 0);
    for situation in all {
        if progress.is_stopped() {
            break;
        }
        match arena.meet(&situation)? {
            Verdict::Skipped(why) => {
                report.notes.push(format!("{}: not met here: {why}", situation.name));
            }
            Verdict::Met(meetings) => {
                for meeting in meetings {
                    let name = format!("{}/{}", situation.name, meeting.policy);
                    let harm = f64::from(meeting.harm.is_some());
                    let row = Row::plain(name.clone(), meeting.profiles as f64, "profiles", 1);
                    report.rows.push(Row {
                        ratio: Some(harm),
                        lo: Some(harm),
                        hi: Some(harm),
                        ..row
                    });
                    met += 1;
                    green += u32::from(meeting.harm.is_none());
                    let expected = if known.contains(&situation.name) { " (known)" } else { "" };
                    report
                        .notes
                        .extend(meeting.harm.map(|what| format!("{name}: it {what}{expected}")));
                    report.notes.extend(
                        meeting.reasons.into_iter().map(|line| format!("{name}: it said {line:?}")),
                    );
                }
            }
        }
        progress.passed(situation.name, 1);
    }
    report.notes.push(format!("{green} of {met} behaved as they do alone."));
    report.notes.extend(progress.end());
    Ok(report)
}
