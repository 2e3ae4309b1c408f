//! The preload library in difficult programs: unusual ways to start and to end, foreign stacks,
//! filters, masks, compilers.
//!
//! The oracles are the program itself without the library, the independent counter, and counts that
//! follow from the program's source.

#[path = "hardships/beginnings.rs"]
mod beginnings;
#[path = "hardships/compilers.rs"]
mod compilers;
#[path = "hardships/endings.rs"]
mod endings;
#[path = "hardships/libraries.rs"]
mod libraries;
#[path = "hardships/load.rs"]
mod load;
mod support;
#[path = "hardships/threads.rs"]
mod threads;
#[path = "support/trial.rs"]
mod trial;
#[path = "hardships/walls.rs"]
mod walls;
