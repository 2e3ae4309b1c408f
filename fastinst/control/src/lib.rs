//! Requests to running programs: one set of requests, one format of lines and answers, and one
//! place of sockets, for native programs and those of the WebAssembly engine, which have further
//! requests of their own.
//!
//! ```text
//! fastinst ctl 4711 only 'parse_*'  ──  only parse_*\n  ─▶  fastinst-4711.sock   the profiler's
//! agent ◀── ok\n…text ◀── error\nwhy not
//! ```
//!
//! One connection is one request. The first line of the answer gives the result; the rest is a
//! text, or the bytes of a profile, to the end.
//!
//! ```
//! use control::{Answer, Request};
//!
//! let request = Request::parse("only parse_* @libz*").unwrap_err();
//! assert!(request.to_string().contains("a tab"));
//! let request = Request::parse("only parse_*\t@libz*").unwrap();
//! assert_eq!(request, Request::Only(vec!["parse_*".into(), "@libz*".into()]));
//! assert_eq!(Request::parse(&request.line()).unwrap(), request);
//!
//! let answer = Answer::from(Err("there is no budget: the policy is exact".to_owned()));
//! assert_eq!(Answer::read(&answer.bytes()).unwrap(), answer);
//! ```
//!
//! - [`Request`] are the requests that programs accept; `line` defines their wire format.
//! - [`Answer`] is a program's answer.
//! - [`registry`] finds the socket of a process, in whatever folder and namespace it lives, or says
//!   why there is none.
//! - [`Visitors`] serves a socket on a thread that has other work, and never blocks.
//!
//! It does not know the meaning of requests: probes, monitors, profiles.

mod answer;
mod line;
pub mod registry;
mod visitors;

pub use answer::Answer;
pub use line::{NotARequest, Request};
pub use visitors::Visitors;
