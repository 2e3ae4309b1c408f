//! Sockets are not supported. For an open descriptor the error is "not a socket", for any other
//! number "bad descriptor".

use super::WasiCtx;
use super::errno::Errno;
use super::guest::Guest;
use super::outcome::Answer;

impl WasiCtx {
    fn no_socket(&self, fd: u32) -> Answer {
        self.table.get(fd)?;
        Err(Errno::NOTSOCK.into())
    }

    /// Accepts a connection: refused.
    pub fn sock_accept(
        &mut self,
        _memory: &Guest<'_>,
        fd: u32,
        _flags: u32,
        _accepted: u32,
    ) -> Answer {
        self.no_socket(fd)
    }

    /// Receives: refused.
    #[allow(clippy::too_many_arguments, reason = "the interface's own")]
    pub fn sock_recv(
        &mut self,
        _memory: &Guest<'_>,
        fd: u32,
        _iovs: u32,
        _len: u32,
        _flags: u32,
        _read: u32,
        _told: u32,
    ) -> Answer {
        self.no_socket(fd)
    }

    /// Sends: refused.
    pub fn sock_send(
        &mut self,
        _memory: &Guest<'_>,
        fd: u32,
        _iovs: u32,
        _len: u32,
        _flags: u32,
        _sent: u32,
    ) -> Answer {
        self.no_socket(fd)
    }

    /// Shuts down: refused.
    pub fn sock_shutdown(&mut self, _memory: &Guest<'_>, fd: u32, _how: u32) -> Answer {
        self.no_socket(fd)
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::World;
    use super::*;

    #[test]
    fn every_call_on_sockets_is_refused() {
        let mut world = World::new();
        for (name, rest) in
            [("sock_accept", 2), ("sock_recv", 5), ("sock_send", 4), ("sock_shutdown", 1)]
        {
            let with = |fd| [vec![fd], vec![0; rest]].concat();
            assert_eq!(world.call(name, &with(1)), Err(Errno::NOTSOCK), "{name}");
            assert_eq!(world.call(name, &with(99)), Err(Errno::BADF), "{name}");
        }
    }
}
