//! Random bytes: the kernel's, or a sequence that is the same in every run.

use super::WasiCtx;
use super::guest::Guest;
use super::outcome::{Answer, Outcome};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fmt;

/// Fills a slice.
type Fill = Box<dyn FnMut(&mut [u8]) + Send>;

/// The source of random bytes.
#[derive(Default)]
pub enum Randomness {
    /// The kernel: fit for keys.
    #[default]
    Kernel,
    /// A sequence that is determined by a seed: for tests, not for secrets.
    Seeded(u64),
    /// The embedder fills the slice.
    Custom(Fill),
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "Kernel",
            Self::Seeded(_) => "Seeded",
            Self::Custom(_) => "Custom",
        })
    }
}

impl Randomness {
    fn fill(&mut self, bytes: &mut [u8]) -> rustix::io::Result<()> {
        match self {
            Self::Kernel => {
                let mut filled = 0;
                while filled < bytes.len() {
                    match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
                        Err(rustix::io::Errno::INTR) => {}
                        count => filled += count?,
                    }
                }
            }
            Self::Seeded(state) => {
                for chunk in bytes.chunks_mut(8) {
                    chunk.copy_from_slice(&split_mix(state).to_le_bytes()[..chunk.len()]);
                }
            }
            Self::Custom(fill) => fill(bytes),
        }
        Ok(())
    }
}

/// One step of the SplitMix64 generator (Steele, Lea and Flood, 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl WasiCtx {
    /// Fills a span with random bytes.
    pub fn random_get(&mut self, memory: &Guest<'_>, buffer: u32, len: u32) -> Answer {
        /// The size of the host's buffer.
        const PIECE: u32 = 4096;
        memory.expect(buffer, len)?;
        let mut bytes = [0; PIECE as usize];
        let mut done = 0;
        while done < len {
            if memory.is_stopped() || self.patience.interrupted() {
                return Err(Outcome::Interrupted);
            }
            let piece = &mut bytes[..PIECE.min(len - done) as usize];
            self.randomness.fill(piece)?;
            memory.write(buffer + done, piece)?;
            done += piece.len() as u32;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::errno::Errno;
    use super::super::scratch::World;
    use super::*;

    #[test]
    fn the_kernel_fills_all_of_a_large_span() {
        let mut world = World::new();
        world.call("random_get", &[100, 10_000]).unwrap();
        let bytes = world.bytes(100, 10_000);
        assert!(bytes.chunks(1000).all(|chunk| chunk.iter().any(|&byte| byte != 0)));
        assert_eq!(world.bytes(10_100, 8), [0; 8]);
    }

    #[test]
    fn a_seed_gives_the_same_bytes_every_time() {
        let bytes = || {
            let mut world = World::with(|builder| builder.randomness(Randomness::Seeded(7)));
            world.call("random_get", &[0, 33]).unwrap();
            world.bytes(0, 33).to_vec()
        };
        assert_eq!(bytes(), bytes());
        assert_ne!(bytes()[..8], bytes()[8..16]);
    }

    #[test]
    fn the_embedder_may_fill() {
        let custom = Randomness::Custom(Box::new(|bytes| bytes.fill(9)));
        let mut world = World::with(|builder| builder.randomness(custom));
        world.call("random_get", &[0, 5000]).unwrap();
        assert_eq!(world.bytes(0, 5000), [9; 5000]);
    }

    #[test]
    fn a_program_that_is_to_stop_is_given_no_more() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let custom = Randomness::Custom(Box::new(|bytes| bytes.fill(9)));
        let mut world = World::with(|builder| builder.randomness(custom));
        let mut memory = vec![0; 10_000];
        assert_eq!(
            world.ctx.random_get(&Guest::exclusive(&mut memory).stopped_by(&stop), 0, 5000),
            Ok(())
        );
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(
            world.ctx.random_get(&Guest::exclusive(&mut memory).stopped_by(&stop), 0, 10_000),
            Err(Outcome::Interrupted)
        );
        assert_eq!((memory[4999], memory[5000]), (9, 0));
    }

    #[test]
    fn nothing_is_filled_beyond_memory() {
        let mut world = World::new();
        assert_eq!(world.call("random_get", &[world.size() - 1, 2]), Err(Errno::FAULT));
        assert_eq!(world.call("random_get", &[1, u64::from(u32::MAX)]), Err(Errno::FAULT));
        assert_eq!(world.bytes(world.size() - 1, 1), [0]);
    }
}
