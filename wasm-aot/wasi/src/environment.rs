//! Arguments and environment: two lists of strings, each handed over in the same way.
//!
//! The guest asks for the number of strings and of bytes, allocates memory for both, and gets an
//! array of pointers and the strings, each with a zero byte at its end.

use super::WasiCtx;
use super::errno::Errno;
use super::guest::Guest;
use super::outcome::Answer;

impl WasiCtx {
    /// Returns the number of arguments, and of their bytes.
    pub fn args_sizes_get(&mut self, memory: &Guest<'_>, count: u32, size: u32) -> Answer {
        sizes(&self.arguments, memory, count, size)
    }

    /// Returns the arguments.
    pub fn args_get(&mut self, memory: &Guest<'_>, pointers: u32, strings: u32) -> Answer {
        list(&self.arguments, memory, pointers, strings)
    }

    /// Returns the number of environment variables, and of their bytes.
    pub fn environ_sizes_get(&mut self, memory: &Guest<'_>, count: u32, size: u32) -> Answer {
        sizes(&self.environment, memory, count, size)
    }

    /// Returns the environment variables, as `NAME=value`.
    pub fn environ_get(&mut self, memory: &Guest<'_>, pointers: u32, strings: u32) -> Answer {
        list(&self.environment, memory, pointers, strings)
    }
}

fn sizes(list: &[Vec<u8>], memory: &Guest<'_>, count: u32, size: u32) -> Answer {
    let number = u32::try_from(list.len()).map_err(|_| Errno::OVERFLOW)?;
    let bytes: usize = list.iter().map(|string| string.len() + 1).sum();
    let bytes = u32::try_from(bytes).map_err(|_| Errno::OVERFLOW)?;
    memory.expect(size, 4)?;
    memory.write_u32(count, number)?;
    Ok(memory.write_u32(size, bytes)?)
}

fn list(list: &[Vec<u8>], memory: &Guest<'_>, pointers: u32, strings: u32) -> Answer {
    let (mut pointer, mut next) = (u64::from(pointers), u64::from(strings));
    for string in list {
        let at = address(next)?;
        memory.write_u32(address(pointer)?, at)?;
        memory.write(at, string)?;
        next += string.len() as u64 + 1;
        memory.write(address(next - 1)?, &[0])?;
        pointer += 4;
    }
    Ok(())
}

fn address(at: u64) -> Result<u32, Errno> {
    u32::try_from(at).map_err(|_| Errno::FAULT)
}

#[cfg(test)]
mod tests {
    use super::super::scratch::World;
    use super::*;

    fn world() -> World {
        World::with(|builder| builder.arg("prog").arg("").env("A", "1").env("B", "two"))
    }

    #[test]
    fn arguments_are_counted_and_listed() {
        let mut world = world();
        world.call("args_sizes_get", &[0, 4]).unwrap();
        assert_eq!((world.u32(0), world.u32(4)), (2, 6));
        world.call("args_get", &[16, 100]).unwrap();
        assert_eq!((world.u32(16), world.u32(20)), (100, 105));
        assert_eq!(world.bytes(100, 6), b"prog\0\0");
    }

    #[test]
    fn variables_are_counted_and_listed() {
        let mut world = world();
        world.call("environ_sizes_get", &[0, 4]).unwrap();
        assert_eq!((world.u32(0), world.u32(4)), (2, 10));
        world.call("environ_get", &[16, 100]).unwrap();
        assert_eq!(world.bytes(100, 10), b"A=1\0B=two\0");
    }

    #[test]
    fn lists_that_do_not_fit_are_faults() {
        let mut world = world();
        let end = world.size();
        assert_eq!(world.call("args_get", &[end - 4, 0]), Err(Errno::FAULT));
        assert_eq!(world.call("args_get", &[0, end - 5]), Err(Errno::FAULT));
        assert_eq!(world.call("args_get", &[u64::from(u32::MAX), 0]), Err(Errno::FAULT));
        assert_eq!(world.call("args_sizes_get", &[0, end - 3]), Err(Errno::FAULT));
    }
}
