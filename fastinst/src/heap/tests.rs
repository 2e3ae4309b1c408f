use super::permanent::ROOM;
use super::spare::SPARE;
use super::*;

/// A freed block may be another test's block a moment later.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Numbers that look random.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// A block, and what it is filled with.
struct Filled {
    block: *mut u8,
    len: usize,
    byte: u8,
}

impl Filled {
    fn new(len: usize, align: usize, byte: u8) -> Self {
        let block = allocate(len, align);
        assert!(
            !block.is_null() && block.addr().is_multiple_of(align.max(ALIGN)),
            "{block:?} for {align}"
        );
        // SAFETY: (1) as long as was asked.
        unsafe { block.write_bytes(byte, len) };
        Self { block, len, byte }
    }

    fn is_whole(&self) -> bool {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts(self.block, self.len) }
            .iter()
            .all(|&byte| byte == self.byte)
    }

    fn resize(mut self, len: usize) -> Self {
        // SAFETY: (1) one of ours, which is not used afterwards.
        self.block = unsafe { resize(self.block, len) };
        self.len = self.len.min(len);
        assert!(self.is_whole() && self.block.addr().is_multiple_of(ALIGN));
        // SAFETY: (1) as long as was asked.
        unsafe { self.block.write_bytes(self.byte, len) };
        self.len = len;
        self
    }

    fn release(self) {
        assert!(self.is_whole());
        // SAFETY: (1) one of ours, which is not used afterwards.
        unsafe { release(self.block) };
    }
}

fn churn(seed: u64) {
    let mut state = seed;
    let mut blocks: Vec<Filled> = Vec::new();
    for round in 0..4000 {
        let len = random(&mut state) % [24, 500, 5_000, 300_000][random(&mut state) % 4];
        match random(&mut state) % 3 {
            0 if !blocks.is_empty() => {
                blocks.swap_remove(random(&mut state) % blocks.len()).release();
            }
            1 if !blocks.is_empty() => {
                let block = blocks.swap_remove(random(&mut state) % blocks.len());
                blocks.push(block.resize(len));
            }
            _ => blocks.push(Filled::new(len, 1 << (random(&mut state) % 15), round as u8)),
        }
        while blocks.len() > 60 {
            blocks.swap_remove(0).release();
        }
    }
    blocks.into_iter().for_each(Filled::release);
}

#[test]
fn blocks_are_aligned_and_keep_what_they_hold_while_several_threads_have_some() {
    let _alone = ALONE.lock().unwrap();
    std::thread::scope(|scope| {
        for seed in 1..4 {
            scope.spawn(move || churn(seed));
        }
    });
}

#[test]
fn what_cannot_be_had_is_null_and_leaves_what_is_there() {
    let _alone = ALONE.lock().unwrap();
    let block = Filled::new(100, 1, 7);
    for len in [usize::MAX, isize::MAX as usize, 1 << 60] {
        assert!(allocate(len, 1).is_null() && allocate(len, 4096).is_null());
        // SAFETY: (1) one of ours.
        assert!(unsafe { resize(block.block, len) }.is_null());
    }
    block.release();
}

#[test]
fn large_blocks_go_back_to_the_kernel() {
    let _alone = ALONE.lock().unwrap();
    let goes_back = |align| {
        let (len, block) = (64 << 20, Filled::new(64 << 20, align, 1));
        let middle = block.block.wrapping_add(len / 2).map_addr(|address| address & !(PAGE - 1));
        // SAFETY: (1) the call only looks whether something is mapped there.
        let is_mapped = || unsafe { libc::msync(middle.cast(), PAGE, libc::MS_ASYNC) == 0 };
        assert!(is_mapped());
        block.release();
        !is_mapped()
    };
    for align in [1, 64, 4096, 1 << 16] {
        // Another test's thread may map something there in between.
        assert!((0..100).any(|_| goes_back(align)), "{align}");
    }
}

#[test]
fn large_blocks_are_used_again_while_there_is_a_hoard() {
    let _alone = ALONE.lock().unwrap();
    let hoard = Hoard::begin();
    let first = Filled::new(1 << 20, 1, 3);
    let at = first.block;
    first.release();
    // The smallest that is large enough, and what is left of it.
    let (half, other) = (Filled::new(1 << 19, 1, 4), Filled::new(1 << 18, 1, 5));
    assert_eq!(half.block, at);
    assert!((at.addr()..at.addr() + (1 << 20)).contains(&other.block.addr()));
    half.release();
    let zeros = allocate_zeros(1 << 19, 1);
    assert_eq!(zeros, at);
    // SAFETY: (1) as long as was asked.
    let is_zero = unsafe { std::slice::from_raw_parts(zeros, 1 << 19) };
    assert!(is_zero.iter().all(|&byte| byte == 0));
    // One that grows moves with its pages, wherever it lies.
    let grown = other.resize(3 << 20);
    grown.release();
    // SAFETY: (1) one of ours, which is not used afterwards.
    unsafe { release(zeros) };
    drop(hoard);
    assert_eq!(Taken::current().unwrap().kept().count, 0);
}

#[test]
fn what_the_kernel_refuses_comes_from_what_was_put_aside() {
    let _alone = ALONE.lock().unwrap();
    Filled::new(100, 1, 7).release();
    // SAFETY: (1) the child calls what a child of several threads may, and this module's
    // functions.
    let status = unsafe {
        let child = libc::syscall(libc::SYS_fork) as i32;
        if child == 0 {
            inherit();
            let none = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
            let is_limited = libc::setrlimit(libc::RLIMIT_AS, &raw const none) == 0;
            let was_short = is_short();
            let mut blocks = (0..1000).take_while(|_| !is_short());
            let all = blocks.all(|_| !allocate(64 << 10, 1).is_null());
            let is_over = allocate(SPARE, 1).is_null();
            let rights = [is_limited, !was_short, all, is_short(), is_over];
            libc::_exit(rights.iter().position(|right| !right).map_or(0, |at| at as i32 + 1));
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0);
        status
    };
    assert_eq!(status, 0);
}

#[test]
fn what_stays_lies_side_by_side_and_what_is_freed_at_once_is_not_there() {
    let _alone = ALONE.lock().unwrap();
    let (first, second, grown) = for_good(|| {
        let first = Filled::new(100, 1, 1);
        Filled::new(1000, 64, 2).release();
        let second = Filled::new(100, 1, 3);
        let grown = Filled::new(50, 1, 4).resize(500).resize(ROOM - 500).resize(60);
        churn(7);
        (first, second, grown)
    });
    let apart = second.block.addr() - first.block.addr();
    assert!((100..200).contains(&apart), "{apart}");
    let after = Filled::new(100, 1, 5);
    // SAFETY: (1) one of ours.
    assert_ne!(unsafe { header(after.block) }.generation, FOR_GOOD);
    [first, second, grown, after].into_iter().for_each(Filled::release);
}

#[test]
fn a_child_that_is_forked_while_another_thread_allocates_has_an_arena_of_its_own() {
    let before = Filled::new(100, 1, 7);
    let (ready, done) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    let status = std::thread::scope(|scope| {
        scope.spawn(|| {
            let taken = Taken::current();
            ready.wait();
            done.wait();
            drop(taken);
        });
        ready.wait();
        // SAFETY: (1) the child calls what a child of several threads may, and this module's
        // functions.
        let status = unsafe {
            let child = libc::syscall(libc::SYS_fork) as i32;
            if child == 0 {
                libc::alarm(20);
                let block = allocate(100, 1);
                release(before.block);
                let is_new =
                    !block.is_null() && header(block).generation != header(before.block).generation;
                release(block);
                libc::syscall(libc::SYS_exit_group, if is_new { 5 } else { 6 });
            }
            let mut status = 0;
            libc::waitpid(child, &raw mut status, 0);
            status
        };
        done.wait();
        status
    });
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 5, "{status:x}");
    before.release();
}
