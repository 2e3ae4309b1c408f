//! Fetches profiles on its own thread.

use profiler::Profile;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The source of profiles.
pub trait Source: Send {
    /// The current profile; or the reason in one line why there is none, and whether there will
    /// never be one again.
    fn take(&mut self) -> Result<Profile, (String, bool)>;
}

/// A result of the thread.
#[derive(Debug)]
pub(crate) enum News {
    Profile(Box<Profile>),
    /// No profile this time, or never again.
    None {
        why: String,
        is_over: bool,
    },
}

/// The pause between profiles for each called function: the profiler takes 3 to 10 µs to name and
/// add up one.
const EACH: Duration = Duration::from_millis(1);
/// The interval at which the thread checks whether to continue.
const LOOK: Duration = Duration::from_millis(20);

/// A thread that takes profiles.
#[derive(Debug)]
pub(crate) struct Feed {
    news: Receiver<News>,
    paused: Arc<AtomicBool>,
}

/// The pause after a profile of this many functions.
fn rest(interval: Duration, functions: usize) -> Duration {
    interval.max(EACH * u32::try_from(functions).unwrap_or(u32::MAX))
}

impl Feed {
    /// Takes a profile at once, and then one per interval, or fewer if that would cost the program
    /// too much.
    pub(crate) fn begin(mut source: impl Source + 'static, interval: Duration) -> io::Result<Self> {
        let (tell, news) = channel();
        let paused = Arc::new(AtomicBool::new(false));
        let waits = Arc::clone(&paused);
        let work = move || loop {
            let (told, functions, is_over) = match source.take() {
                Ok(profile) => {
                    let functions = profile.functions.len();
                    (News::Profile(Box::new(profile)), functions, false)
                }
                Err((why, is_over)) => (News::None { why, is_over }, 0, is_over),
            };
            if tell.send(told).is_err() || is_over {
                return;
            }
            std::thread::sleep(rest(interval, functions));
            while waits.load(Relaxed) {
                std::thread::sleep(LOOK);
            }
        };
        std::thread::Builder::new().name("profiles".to_owned()).spawn(work)?;
        Ok(Self { news, paused })
    }

    /// The next result, if there is one.
    pub(crate) fn news(&self) -> Option<News> {
        self.news.try_recv().ok()
    }

    /// Takes no profiles while it is paused.
    pub(crate) fn pause(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_many_functions_are_taken_seldom() {
        let second = Duration::from_secs(1);
        assert_eq!(rest(second, 30), second);
        assert_eq!(rest(second, 10_000), 10 * second);
    }
}
