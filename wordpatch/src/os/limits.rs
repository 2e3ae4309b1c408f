//! Resource limits of the process (getrlimit(2)).

/// The current limit of a resource; `None` if it has none. Usable in a signal handler.
pub fn of(resource: libc::__rlimit_resource_t) -> Option<u64> {
    // SAFETY: (1) a limit to write to.
    let limit = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        (libc::getrlimit(resource, &raw mut limit) == 0).then_some(limit.rlim_cur)
    };
    limit.filter(|limit| *limit != libc::RLIM_INFINITY)
}
