//! The instrumentation language: one script, two targets.
