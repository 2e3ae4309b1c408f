//! Strands: a thread's samples and its CPU time, and how its time is shared by the places it was
//! seen at.

use super::{Amount, Observed, Owner, Place, UserTime};
use std::collections::HashMap;

/// The observations of a thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Strand {
    /// Its CPU time, in nanoseconds, as read last.
    pub(crate) processor: f64,
    pub(crate) places: HashMap<Place, u32>,
    pub(crate) samples: u64,
}

impl Strand {
    pub(crate) fn see(&mut self, place: Place) {
        *self.places.entry(place).or_default() += 1;
        self.samples += 1;
    }
}

/// What was seen of threads that have ended: places with the time and the samples that they stand
/// for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended {
    pub(crate) places: HashMap<Place, Amount>,
    /// Their CPU time as read last.
    pub(crate) processor: f64,
    pub(crate) samples: u64,
    /// Of it, that of threads without a sample.
    pub(crate) unsampled: f64,
}

impl Ended {
    /// A thread has ended.
    pub(crate) fn add(&mut self, strand: &Strand) {
        self.processor += strand.processor;
        if strand.samples == 0 {
            self.unsampled += strand.processor;
            return;
        }
        self.samples += strand.samples;
        for (&place, &samples) in &strand.places {
            let samples = f64::from(samples);
            let time = strand.processor * samples / strand.samples as f64;
            self.places.entry(place).or_default().add(Amount { time, samples });
        }
    }
}

/// What was seen of threads that are too brief for the clock.
#[derive(Clone, Debug)]
pub(crate) struct Brief {
    /// How often a place was seen.
    pub(crate) places: HashMap<Place, u64>,
    pub(crate) seen: u64,
    /// The number of samples of the clock that it is worth.
    pub(crate) samples: u64,
    /// How much of their time is user time.
    pub(crate) user: UserTime,
}

/// User time by place.
#[derive(Debug, Default)]
pub(super) struct ByPlace {
    pub(super) of: HashMap<Place, Amount>,
    pub(super) processor: f64,
    pub(super) system: f64,
    pub(super) unsampled: f64,
    pub(super) samples: u64,
}

/// Divides every thread's time among its places; the rest of it is system time. The time in hooks
/// is excluded.
pub(super) fn by_place(observed: &Observed<'_>, owner: &mut impl FnMut(Place) -> Owner) -> ByPlace {
    let mut sum = ByPlace::default();
    match &observed.brief {
        Some(brief) if brief.samples > 0 && observed.unsampled > 0.0 => {
            let share = |(&place, &seen): (&Place, &u64)| {
                let share = seen as f64 / brief.seen as f64;
                (place, share, share * brief.samples as f64)
            };
            let places = brief.places.iter().map(share);
            sum.add(observed.unsampled, brief.samples, places, brief.user, owner);
        }
        _ => {
            sum.unsampled += observed.unsampled;
            sum.processor += observed.unsampled;
        }
    }
    for strand in &observed.live {
        if strand.samples == 0 {
            sum.unsampled += strand.processor;
            sum.processor += strand.processor;
            continue;
        }
        let share = |(&place, &samples): (&Place, &u32)| {
            (place, f64::from(samples) / strand.samples as f64, f64::from(samples))
        };
        sum.add(
            strand.processor,
            strand.samples,
            strand.places.iter().map(share),
            observed.user,
            owner,
        );
    }
    let ended = observed.ended;
    let sampled = ended.processor - ended.unsampled;
    if ended.samples > 0 && sampled > 0.0 {
        // Their last moments were not read: they are shared as the rest.
        let share =
            |(&place, amount): (&Place, &Amount)| (place, amount.time / sampled, amount.samples);
        let places = ended.places.iter().map(share);
        sum.add(sampled + observed.residue, ended.samples, places, observed.user, owner);
        sum.unsampled += ended.unsampled;
        sum.processor += ended.unsampled;
    } else {
        sum.unsampled += ended.processor + observed.residue;
        sum.processor += ended.processor + observed.residue;
    }
    sum
}

impl ByPlace {
    /// A thread's CPU time and samples; its places with their share of the samples.
    fn add(
        &mut self,
        processor: f64,
        samples: u64,
        places: impl Iterator<Item = (Place, f64, f64)>,
        user: UserTime,
        owner: &mut impl FnMut(Place) -> Owner,
    ) {
        let sees_kernel = user == UserTime::AndSystem;
        let (exits, places): (Vec<_>, Vec<_>) =
            places.partition(|&(place, ..)| !sees_kernel && owner(place).is_kernel_exit);
        let in_kernel: f64 = exits.iter().map(|&(_, share, _)| share).sum();
        let user_share = (1.0 - in_kernel)
            * match user {
                UserTime::AndSystem => 1.0,
                // The first sample comes a whole period after the beginning.
                UserTime::Sampled { period } => {
                    ((samples + 1) as f64 * period / processor).min(1.0)
                }
                UserTime::Share(share) => share,
            };
        self.processor += processor;
        self.samples += samples;
        let all: f64 = places.iter().map(|&(_, share, _)| share).sum();
        let time = if all > 0.0 { processor * user_share } else { 0.0 };
        self.system += processor - time;
        for (place, share, samples) in places {
            let time = time * share / all;
            if owner(place).is_hook {
                self.processor -= time;
                self.samples = self.samples.saturating_sub(samples.round() as u64);
            } else {
                self.of.entry(place).or_default().add(Amount { time, samples });
            }
        }
    }
}
