//! Error numbers: the results of calls.
//!
//! WASI numbers its errors in the alphabetical order of their names, the kernel historically;
//! [`Errno`] is the former, and one table converts the latter.

use std::fmt;

/// An error number of WASI; zero is success.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(u16);

impl Errno {
    /// The number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The name, without its E.
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Defines numbers, constants and names, and the kernel's constant of the same meaning.
macro_rules! errnos {
    ($($number:literal $name:ident $(= $($kernel:ident)|+)?,)*) => {
        #[allow(missing_docs)]
        impl Errno {
            $(pub const $name: Self = Self($number);)*
        }

        const NAMES: &[&str] = &[$(stringify!($name)),*];

        impl From<rustix::io::Errno> for Errno {
            fn from(errno: rustix::io::Errno) -> Self {
                match errno {
                    $($(rustix::io::Errno::$($kernel)|+ => Self::$name,)?)*
                    _ => Self::IO,
                }
            }
        }
    };
}

errnos! {
    0 SUCCESS,
    1 TOOBIG = TOOBIG,
    2 ACCES = ACCESS,
    3 ADDRINUSE = ADDRINUSE,
    4 ADDRNOTAVAIL = ADDRNOTAVAIL,
    5 AFNOSUPPORT = AFNOSUPPORT,
    6 AGAIN = AGAIN,
    7 ALREADY = ALREADY,
    8 BADF = BADF,
    9 BADMSG = BADMSG,
    10 BUSY = BUSY,
    11 CANCELED = CANCELED,
    12 CHILD = CHILD,
    13 CONNABORTED = CONNABORTED,
    14 CONNREFUSED = CONNREFUSED,
    15 CONNRESET = CONNRESET,
    16 DEADLK = DEADLK,
    17 DESTADDRREQ = DESTADDRREQ,
    18 DOM = DOM,
    19 DQUOT = DQUOT,
    20 EXIST = EXIST,
    21 FAULT = FAULT,
    22 FBIG = FBIG,
    23 HOSTUNREACH = HOSTUNREACH,
    24 IDRM = IDRM,
    25 ILSEQ = ILSEQ,
    26 INPROGRESS = INPROGRESS,
    27 INTR = INTR,
    28 INVAL = INVAL,
    29 IO = IO,
    30 ISCONN = ISCONN,
    31 ISDIR = ISDIR,
    32 LOOP = LOOP,
    33 MFILE = MFILE,
    34 MLINK = MLINK,
    35 MSGSIZE = MSGSIZE,
    36 MULTIHOP = MULTIHOP,
    37 NAMETOOLONG = NAMETOOLONG,
    38 NETDOWN = NETDOWN,
    39 NETRESET = NETRESET,
    40 NETUNREACH = NETUNREACH,
    41 NFILE = NFILE,
    42 NOBUFS = NOBUFS,
    43 NODEV = NODEV,
    44 NOENT = NOENT,
    45 NOEXEC = NOEXEC,
    46 NOLCK = NOLCK,
    47 NOLINK = NOLINK,
    48 NOMEM = NOMEM,
    49 NOMSG = NOMSG,
    50 NOPROTOOPT = NOPROTOOPT,
    51 NOSPC = NOSPC,
    52 NOSYS = NOSYS,
    53 NOTCONN = NOTCONN,
    54 NOTDIR = NOTDIR,
    55 NOTEMPTY = NOTEMPTY,
    56 NOTRECOVERABLE = NOTRECOVERABLE,
    57 NOTSOCK = NOTSOCK,
    58 NOTSUP = OPNOTSUPP,
    59 NOTTY = NOTTY,
    60 NXIO = NXIO,
    61 OVERFLOW = OVERFLOW,
    62 OWNERDEAD = OWNERDEAD,
    63 PERM = PERM,
    64 PIPE = PIPE,
    65 PROTO = PROTO,
    66 PROTONOSUPPORT = PROTONOSUPPORT,
    67 PROTOTYPE = PROTOTYPE,
    68 RANGE = RANGE,
    69 ROFS = ROFS,
    70 SPIPE = SPIPE,
    71 SRCH = SRCH,
    72 STALE = STALE,
    73 TIMEDOUT = TIMEDOUT,
    74 TXTBSY = TXTBSY,
    75 XDEV = XDEV,
    76 NOTCAPABLE,
}

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        error
            .raw_os_error()
            .map_or(Self::IO, |number| rustix::io::Errno::from_raw_os_error(number).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_kernel_keep_their_meaning() {
        for (kernel, wasi) in [
            (libc::ENOENT, Errno::NOENT),
            (libc::EEXIST, Errno::EXIST),
            (libc::ENOTEMPTY, Errno::NOTEMPTY),
            (libc::ELOOP, Errno::LOOP),
            (libc::ENOTSUP, Errno::NOTSUP),
            (libc::EWOULDBLOCK, Errno::AGAIN),
        ] {
            assert_eq!(Errno::from(rustix::io::Errno::from_raw_os_error(kernel)), wasi);
        }
    }

    #[test]
    fn names_stand_at_their_numbers() {
        assert_eq!(NAMES.len(), 77);
        assert_eq!(Errno::NOTCAPABLE.number(), 76);
        assert_eq!(format!("{:?}", Errno::NOENT), "NOENT(44)");
    }
}
