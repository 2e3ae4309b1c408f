//! The program as a process: it ends, it yields, it may not signal.

use super::WasiCtx;
use super::errno::Errno;
use super::guest::Guest;
use super::outcome::{Answer, Outcome};

impl WasiCtx {
    /// Ends the program.
    pub fn proc_exit(&mut self, _memory: &Guest<'_>, code: u32) -> Answer {
        Err(Outcome::Exit(code))
    }

    /// Refused: signals belong to the host.
    pub fn proc_raise(&mut self, _memory: &Guest<'_>, _signal: u32) -> Answer {
        Err(Errno::NOTSUP.into())
    }

    /// Lets other threads run.
    pub fn sched_yield(&mut self, _memory: &Guest<'_>) -> Answer {
        std::thread::yield_now();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::World;
    use super::*;

    #[test]
    fn exits_carry_their_code() {
        let mut world = World::new();
        assert_eq!(world.outcome("proc_exit", &[3]), Outcome::Exit(3));
        assert_eq!(world.outcome("proc_exit", &[u64::from(u32::MAX)]), Outcome::Exit(u32::MAX));
    }

    #[test]
    fn programs_yield_and_do_not_signal() {
        let mut world = World::new();
        assert_eq!(world.call("sched_yield", &[]), Ok(()));
        assert_eq!(world.call("proc_raise", &[9]), Err(Errno::NOTSUP));
    }
}
