//! The table.

use super::situation::{Expected, Need, Situation};

/// A row, and how it differs from the usual.
const fn row(name: &'static str, source: &'static str, line: &'static str) -> Situation {
    Situation::new(name, source, line)
}

/// Known failures, with their reasons. A row moves into its group when it is fixed.
pub fn open() -> impl Iterator<Item = Situation> {
    OPEN.iter().copied()
}

const OPEN: &[Situation] = &[];

/// All rows that must pass.
pub fn situations() -> impl Iterator<Item = Situation> {
    let groups: [&[Situation]; 11] = [
        LIMITS, SANDBOXES, ALLOCATORS, FAMILIES, SIGNALS, STACKS, PLACES, COMPANY, BINARIES, CODE,
        CROWDS,
    ];
    groups.into_iter().flatten().copied()
}

const LIMITS: &[Situation] = &[
    row("limits/file size, from the start", "limits.c", "ulimit -Sf 0; exec $0 size"),
    row("limits/file size", "limits.c", "exec $0 size").leaving(Expected::Each),
    row("limits/descriptors", "limits.c", "exec $0 descriptors").leaving(Expected::Each),
    row("limits/address space", "limits.c", "exec $0 memory").leaving(Expected::Each),
    row("limits/address space of 30 MB", "calls.c", "ulimit -v 30000; exec $0"),
    row("limits/address space of 100 MB", "calls.c", "ulimit -v 100000; exec $0"),
    row("limits/data of 3 MB", "calls.c", "ulimit -d 3000; exec $0"),
    row("limits/data of 8 MB", "calls.c", "ulimit -d 8000; exec $0"),
    row("limits/eight descriptors", "calls.c", "ulimit -n 8; exec $0"),
    row("limits/stack of 100 kB", "calls.c", "ulimit -s 100; exec $0"),
    row("limits/stack without end", "calls.c", "ulimit -s unlimited; exec $0"),
    row("limits/no memory may be locked", "calls.c", "ulimit -l 0; exec $0"),
    row("limits/a minute of processor time", "calls.c", "ulimit -t 60; exec $0"),
    row("limits/no core file", "calls.c", "ulimit -c 0; exec $0"),
    row("limits/no process more", "crowds.c", "exec prlimit --nproc=1 $0 processes")
        .needing(Need::Tool("prlimit"))
        .leaving(Expected::Each),
    row("limits/no signal may be queued", "handlers.c", "exec prlimit --sigpending=0 $0 nested")
        .needing(Need::Tool("prlimit")),
    row("limits/all memory is locked", "locked.c", "exec $0"),
];

const SANDBOXES: &[Situation] = &[
    row("sandboxes/no membarrier", "sandbox.c", "exec $0 barrier"),
    row("sandboxes/no membarrier, from the start", "sandbox.c", "exec $0 before $0"),
    row("sandboxes/no sampling clock, from the start", "sandbox.c", "exec $0 clock $0"),
    row("sandboxes/calls are refused", "sandbox.c", "exec $0 strict"),
    row("sandboxes/calls kill", "sandbox.c", "exec $0 deadly"),
    row("sandboxes/calls of the first thread kill", "sandbox.c", "exec $0 mine"),
    row("sandboxes/a harmless filter", "sandbox.c", "exec $0 harmless"),
    row("sandboxes/a filter that cannot be read", "sandbox.c", "exec $0 strange"),
    row("sandboxes/the strict mode", "prctls.c", "exec $0 strict"),
    row("sandboxes/no clock", "prctls.c", "exec $0 no-clock"),
    row("sandboxes/nothing becomes executable", "prctls.c", "exec $0 write-xor-execute"),
    row("sandboxes/undumpable", "prctls.c", "exec $0 undumpable"),
    row("sandboxes/no new privileges", "prctls.c", "exec $0 privileges"),
    row("sandboxes/slack timers", "prctls.c", "exec $0 slack"),
    row("sandboxes/a reaper", "prctls.c", "exec $0 subreaper"),
    row("sandboxes/another name", "prctls.c", "exec $0 renamed"),
    row("sandboxes/namespaces", "namespaces.c", "exec $0").needing(Need::Root),
    row("sandboxes/a user of its own", "calls.c", "exec unshare -r $0")
        .needing(Need::Tool("unshare")),
    row("sandboxes/a network of its own", "calls.c", "exec unshare -rn $0")
        .needing(Need::Tool("unshare")),
];

const ALLOCATORS: &[Situation] = &[
    row("allocators/its own, which gives nothing back", "allocators.c", "exec $0 bump")
        .leaving(Expected::Each),
    row("allocators/its own, with probes", "allocators.c", "exec $0 probed")
        .built(&["-O2", "-finstrument-functions", "-DPROBED"])
        .leaving(Expected::Each),
    row("allocators/its own, which refuses", "allocators.c", "exec $0 poor")
        .leaving(Expected::Each),
    row("allocators/the C library's, filled", "calls.c", "MALLOC_PERTURB_=165 exec $0"),
    row("allocators/the C library's, one arena", "crowds.c", "MALLOC_ARENA_MAX=1 exec $0 threads"),
];

const FAMILIES: &[Situation] = &[
    row("families/fork", "children.c", "exec $0 fork").leaving(Expected::Each),
    row("families/_Fork", "children.c", "exec $0 _Fork").leaving(Expected::Each),
    row("families/the system call", "children.c", "exec $0 'system call'").leaving(Expected::Each),
    row("families/a daemon", "children.c", "exec $0 daemon").leaving(Expected::Each),
    row("families/a terminal's", "children.c", "exec $0 forkpty").leaving(Expected::Each),
    row("families/vfork, spawn, system, popen", "launches.c", "exec $0").leaving(Expected::Each),
    row("families/exec, thrice", "launches.c", "exec $0 chain 3").leaving(Expected::Each),
    row("families/a child of vfork exits", "leavings.c", "exec $0 vfork-exit exit"),
    row("families/a child of vfork ends", "leavings.c", "exec $0 vfork-_exit"),
    row("families/forks beside a thread", "forks.c", "exec $0").leaving(Expected::Each),
    row("families/forks of several threads", "clones.c", "exec $0 both").leaving(Expected::Each),
    row("families/forks in a handler", "clones.c", "exec $0 handler").leaving(Expected::Each),
    row("families/an orphan", "clones.c", "exec $0 orphan").leaving(Expected::Each),
    row("families/a bare thread", "clones.c", "exec $0 thread"),
    row("families/a child that shares memory", "clones.c", "exec $0 shared"),
    row("families/process 1 of a namespace", "clones.c", "exec $0 first")
        .needing(Need::Root)
        .leaving(Expected::Each),
    row("families/a container's process 1", "clones.c", "exec unshare -fp --mount-proc $0 both")
        .needing(Need::RootAnd("unshare"))
        .leaving(Expected::Each),
    row("families/a hundred children", "crowds.c", "exec $0 processes").leaving(Expected::Each),
    row("families/thirty generations", "crowds.c", "exec $0 generations").leaving(Expected::Each),
    row("families/a session of its own", "places.c", "exec $0 terminal").leaving(Expected::Each),
];

const SIGNALS: &[Situation] = &[
    row("signals/a handler that blocks everything", "handlers.c", "exec $0 full-mask"),
    row("signals/SIGTRAP is its own", "handlers.c", "exec $0 trap"),
    row("signals/SIGTRAP is ignored", "handlers.c", "exec $0 ignored"),
    row("signals/SIGTRAP is blocked", "handlers.c", "exec $0 blocked"),
    row("signals/SIGTRAP comes and goes beside threads that block it", "masked.c", "exec $0"),
    row("signals/the smallest stack", "handlers.c", "exec $0 smallest"),
    row("signals/a profiler's timer", "handlers.c", "exec $0 profiled"),
    row("signals/every signal has a handler", "handlers.c", "exec $0 all"),
    row("signals/handlers in handlers", "handlers.c", "exec $0 nested"),
    row("signals/a thread waits for them", "handlers.c", "exec $0 waits"),
    row("signals/they come through a descriptor", "handlers.c", "exec $0 descriptor"),
    row("signals/children are ignored", "handlers.c", "exec $0 children").leaving(Expected::Each),
    row("signals/a storm from outside", "handlers.c", "exec $0 storm").leaving(Expected::Each),
    row("signals/handlers leave by siglongjmp", "handlers.c", "exec $0 leaves"),
    row("signals/faults are gone on from", "handlers.c", "exec $0 guards"),
    row(
        "signals/all ignored from the start",
        "calls.c",
        "trap '' HUP INT QUIT USR1 USR2 TERM TRAP; exec $0",
    ),
    row("signals/ends by SIGABRT", "endings.c", "exec $0 abort").leaving(Expected::Undecided),
    row("signals/ends by SIGSEGV", "endings.c", "exec $0 fault").leaving(Expected::Undecided),
    row("signals/ends by SIGKILL", "endings.c", "exec $0 kill").leaving(Expected::Undecided),
    row("signals/ends in a handler", "endings.c", "exec $0 caught"),
];

const STACKS: &[Situation] = &[
    row("stacks/the end of the stack is met", "handlers.c", "exec $0 overflows"),
    // Each of their functions is called once.
    row("stacks/signals come where other stacks were", "movedstacks.c", "exec $0")
        .leaving(Expected::Each),
    row("stacks/signal stacks by the system call", "movedstacks.c", "exec $0 syscall")
        .leaving(Expected::Each),
    row("stacks/coroutines of the C library", "contexts.c", "exec $0"),
    row("stacks/coroutines made by hand", "coroutines.c", "exec $0 hand-made"),
    row("stacks/coroutines that threads carry on", "coroutines.c", "exec $0 carried"),
    row("stacks/coroutines on 4 kB", "coroutines.c", "exec $0 small"),
    row("stacks/coroutines above guard pages", "coroutines.c", "exec $0 guarded"),
    row("stacks/longjmp over probed frames", "jumps.c", "exec $0"),
    row("stacks/the smallest threads", "crowd.c", "exec $0"),
    row("stacks/frames of every shape", "frames.c", "exec $0"),
];

const PLACES: &[Situation] = &[
    row("places/the folder is removed", "places.c", "exec $0 removed"),
    row("places/another root", "places.c", "exec $0 root").needing(Need::Root),
    row("places/becomes nobody", "places.c", "exec $0 nobody").needing(Need::Root),
    row("places/the program's file is removed", "places.c", "exec $0 file"),
    row("places/a program without a name", "places.c", "exec $0 memory").leaving(Expected::Each),
    row("places/all descriptors are closed", "places.c", "exec $0 descriptors"),
    row("places/all descriptors are taken", "places.c", "exec $0 taken"),
    row("places/descriptors as a daemon has them", "descriptors.c", "exec $0"),
    row("places/the lowest number is expected", "places.c", "exec $0 numbers"),
    row("places/no standard streams", "calls.c", "exec $0 <&- >&- 2>&-").leaving(Expected::Profile),
    row("places/no standard error", "calls.c", "exec $0 2>&-").leaving(Expected::Profile),
    row("places/standard output is full", "calls.c", "exec $0 >/dev/full"),
    row("places/nowhere to write to", "calls.c", "FASTINST_OUTPUT=/nowhere/at/all exec $0")
        .leaving(Expected::Undecided),
    row("places/a device to write to", "calls.c", "FASTINST_OUTPUT=/dev/full exec $0")
        .leaving(Expected::Undecided),
    row(
        "places/a pipe that nobody reads",
        "calls.c",
        "mkfifo pipe; FASTINST_OUTPUT=$PWD/pipe exec $0",
    )
    .leaving(Expected::Undecided),
    row(
        "places/a link to a device",
        "calls.c",
        "ln -s /dev/null link; FASTINST_OUTPUT=$PWD/link exec $0",
    )
    .leaving(Expected::Undecided),
    row(
        "places/a read-only file system",
        "calls.c",
        "exec unshare -m sh -c 'mount -t tmpfs -o ro none out; exec $0' $0",
    )
    .needing(Need::RootAnd("unshare"))
    .leaving(Expected::Reason),
    row(
        "places/a full file system",
        "calls.c",
        "exec unshare -m sh -c 'mount -t tmpfs -o size=4k none out && \
        dd if=/dev/zero of=out/full bs=4k count=1 2>/dev/null; exec $0' $0",
    )
    .needing(Need::RootAnd("unshare"))
    .leaving(Expected::Reason),
    row(
        "places/no /proc",
        "calls.c",
        "exec unshare -m sh -c 'mount -t tmpfs none /proc; exec $0' $0",
    )
    .needing(Need::RootAnd("unshare")),
    row("places/no temporary folder", "calls.c", "TMPDIR=/nowhere exec $0"),
    row(
        "places/an empty environment but for us",
        "calls.c",
        "exec env -i LD_PRELOAD=$LD_PRELOAD FASTINST_OUTPUT=$FASTINST_OUTPUT \
        FASTINST_FORMAT=csv $0",
    ),
    row(
        "places/half a thousand variables",
        "calls.c",
        "i=0; while [ $i -lt 500 ]; do export V$i=$i; i=$((i+1)); done; exec $0",
    ),
];

/// A library that interposes functions that many tools interpose.
const COMPANION: &[&str] = &["-O2", "-shared", "-fPIC"];

const COMPANY: &[Situation] = &[
    row(
        "company/another preloaded library, first",
        "crowds.c",
        "LD_PRELOAD=$PWD/companion.so:$LD_PRELOAD exec $0 processes",
    )
    .beside(&[("companion.so", "companion.c", COMPANION)])
    .leaving(Expected::Each),
    row(
        "company/another preloaded library, last",
        "handlers.c",
        "LD_PRELOAD=$LD_PRELOAD:$PWD/companion.so exec $0 nested",
    )
    .beside(&[("companion.so", "companion.c", COMPANION)]),
    row("company/our library twice", "calls.c", "LD_PRELOAD=$LD_PRELOAD:$LD_PRELOAD exec $0"),
    row("company/hooks of its own", "own.c", "exec $0").leaving(Expected::Undecided),
    row("company/a tracer", "handlers.c", "exec ./tracer watches $0 nested").beside(&[(
        "tracer",
        "tracer.c",
        &["-O2"],
    )]),
    row("company/a tracer that steps", "endings.c", "exec ./tracer steps $0 exit").beside(&[(
        "tracer",
        "tracer.c",
        &["-O2"],
    )]),
    row("company/a tracer that comes and goes", "forks.c", "exec ./tracer attaches $0")
        .beside(&[("tracer", "tracer.c", &["-O2"])])
        .leaving(Expected::Each),
    row("company/gdb", "calls.c", "gdb -batch-silent -nx -ex run $0 2>/dev/null")
        .needing(Need::Tool("gdb")),
    row("company/strace", "forks.c", "exec strace -f -o /dev/null $0")
        .needing(Need::Tool("strace"))
        .leaving(Expected::Each),
    row("company/valgrind", "calls.c", "exec valgrind -q $0").needing(Need::Tool("valgrind")),
    row("company/a low priority", "calls.c", "exec nice -n 19 $0"),
    row("company/one processor", "crowds.c", "exec taskset -c 0 $0 cancelled")
        .needing(Need::Tool("taskset")),
    row("company/a real-time priority", "calls.c", "exec chrt -f 10 $0")
        .needing(Need::RootAnd("chrt")),
    row("company/a deadline", "calls.c", "exec timeout 50 $0"),
];

const BINARIES: &[Situation] = &[
    row("binaries/stripped", "frames.c", "exec $0")
        .built(&["-O2", "-finstrument-functions", "-s"])
        .leaving(Expected::Each),
    row("binaries/not position-independent", "frames.c", "exec $0").built(&[
        "-O2",
        "-finstrument-functions",
        "-no-pie",
        "-fno-pie",
    ]),
    row("binaries/bound at once", "frames.c", "exec $0").built(&[
        "-O2",
        "-finstrument-functions",
        "-Wl,-z,relro,-z,now",
    ]),
    row("binaries/without PLT", "frames.c", "exec $0").built(&[
        "-O2",
        "-finstrument-functions",
        "-fno-plt",
    ]),
    row("binaries/with landing pads", "frames.c", "exec $0").built(&[
        "-O2",
        "-finstrument-functions",
        "-fcf-protection=full",
    ]),
    row("binaries/unoptimised", "frames.c", "exec $0").built(&[
        "-O0",
        "-g",
        "-finstrument-functions",
    ]),
    row("binaries/at any address but the usual", "frames.c", "exec setarch -R $0")
        .needing(Need::Tool("setarch")),
    row("binaries/everything readable is executable", "frames.c", "exec setarch -X $0")
        .needing(Need::Tool("setarch")),
    row("binaries/without a probe", "calls.c", "exec $0")
        .built(&["-O2"])
        .leaving(Expected::Undecided),
    row("binaries/static", "calls.c", "exec $0")
        .built(&["-O2", "-finstrument-functions", "-static"])
        .leaving(Expected::NotLoaded),
    row("binaries/static and position-independent", "calls.c", "exec $0")
        .built(&["-O2", "-finstrument-functions", "-static-pie"])
        .leaving(Expected::NotLoaded),
    row("binaries/without a C library", "bare.c", "exec $0")
        .built(BARE)
        .leaving(Expected::NotLoaded),
    row("binaries/of 32 bits", "bare.c", "exec $0").built(BARE_32).leaving(Expected::NotLoaded),
    row("binaries/setuid", "calls.c", "chown 65534 $0 && chmod 4755 $0 && exec $0")
        .needing(Need::Root)
        .leaving(Expected::Undecided),
    row(
        "binaries/a script",
        "calls.c",
        "printf '#!/bin/sh\\nexec ./program\\n' >script; chmod +x script; exec ./script",
    ),
    row("binaries/started by the loader", "calls.c", "exec /lib64/ld-linux-x86-64.so.2 $0"),
];

const BARE: &[&str] = &["-O2", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector"];
const BARE_32: &[&str] =
    &["-m32", "-fno-pie", "-O2", "-nostdlib", "-static", "-ffreestanding", "-fno-stack-protector"];

const CODE: &[Situation] = &[
    row("code/made while it runs", "generated.c", "exec $0 rwx"),
    row("code/written, then executed", "generated.c", "exec $0 remapped"),
    row("code/made, with hooks", "generated.c", "exec $0 hooks"),
    row("code/made, called and unmapped", "generated.c", "exec $0 gone"),
    row("code/changes its own text", "generated.c", "exec $0 own-text"),
    row("code/locks its own text", "generated.c", "exec $0 locked"),
    row("code/loads and unloads", "churn.c", "exec $0 $PWD/plugin.so 1000")
        .beside(&[(
            "plugin.so",
            "plugin.c",
            &["-O2", "-finstrument-functions", "-shared", "-fPIC"],
        )])
        .leaving(Expected::Each),
];

const CROWDS: &[Situation] = &[
    row("crowds/two thousand threads", "crowds.c", "exec $0 threads"),
    row("crowds/ten thousand threads, one after the other", "crowds.c", "exec $0 short"),
    row("crowds/detached threads", "crowds.c", "exec $0 detached"),
    row("crowds/cancelled threads", "crowds.c", "exec $0 cancelled"),
    row("crowds/threads that end in every way", "threads.c", "exec $0"),
    row("crowds/the first thread ends first", "endings.c", "exec $0 thread"),
    row("crowds/the last thread ends by the system call", "leavings.c", "exec $0 raw"),
    row("crowds/ends beside threads that work", "endings.c", "exec $0 exit"),
    row("crowds/ends at once beside threads that work", "endings.c", "exec $0 _exit"),
    row("crowds/two hundred thousand functions", "functions.c", "exec $0"),
];
