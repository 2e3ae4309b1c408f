//! A program's own text, switched and retargeted under each policy, and the permissions of its
//! pages.
#![allow(unsafe_code)]

mod support;

use callpatch::{CallSite, Destination, Role, Survey, Switch, set_all};
use std::arch::global_asm;
use wordpatch::os::maps::mapping_at;
use wordpatch::{Access, CodeAddr, Policy};

// Four pages of text, each with a function whose call crosses a line, and two hooks; and one call
// through a slot.
global_asm!(
    ".pushsection .text.callpatch_specimens, \"ax\"",
    ".macro callpatch_specimen name",
    ".p2align 12",
    ".skip 57, 0x90",
    // Visible in all codegen units of the test.
    ".globl \\name",
    ".globl \\name\\()_memory",
    "\\name: .byte 0xb8, 1, 0, 0, 0",
    ".byte 0xe8",
    ".long callpatch_two - . - 4",
    ".byte 0xc3",
    ".skip 53, 0x90",
    "\\name\\()_memory: .byte 0xb8, 1, 0, 0, 0",
    ".byte 0xff, 0x15",
    ".long callpatch_slots - . - 4",
    ".byte 0xc3",
    ".p2align 12",
    ".endm",
    "callpatch_specimen callpatch_rwx",
    "callpatch_specimen callpatch_lazy",
    "callpatch_specimen callpatch_batch",
    "callpatch_specimen callpatch_procmem",
    "callpatch_two: .byte 0xb8, 2, 0, 0, 0, 0xc3",
    ".p2align 4",
    "callpatch_three: .byte 0xb8, 3, 0, 0, 0, 0xc3",
    ".p2align 12",
    ".popsection",
    ".pushsection .data.rel.callpatch_slots, \"aw\"",
    ".p2align 3",
    "callpatch_slots: .quad callpatch_two, callpatch_three",
    ".popsection",
);

unsafe extern "C" {
    fn callpatch_rwx() -> u32;
    fn callpatch_lazy() -> u32;
    fn callpatch_batch() -> u32;
    fn callpatch_procmem() -> u32;
    fn callpatch_rwx_memory() -> u32;
    fn callpatch_lazy_memory() -> u32;
    fn callpatch_batch_memory() -> u32;
    fn callpatch_procmem_memory() -> u32;
    fn callpatch_two() -> u32;
    fn callpatch_three() -> u32;
    static callpatch_slots: [usize; 2];
}

type Specimen = unsafe extern "C" fn() -> u32;

fn address(function: Specimen) -> CodeAddr {
    CodeAddr::new(function as usize)
}

fn call(function: Specimen) -> u32 {
    // SAFETY: (1) the functions above take no arguments, in either state.
    unsafe { function() }
}

fn permissions(at: CodeAddr) -> String {
    mapping_at(at).unwrap().unwrap().permissions()
}

/// Switches and retargets a direct site and one through a slot; returns the page's permissions
/// after adoption and at the end.
fn exercise(access: Access, direct: Specimen, through: Specimen) -> [String; 2] {
    let policy = Policy { access, ..Policy::new().unwrap() };
    let (two, three) = (address(callpatch_two), address(callpatch_three));
    let slots = CodeAddr::from_ptr(&raw const callpatch_slots);
    let mut survey = Survey::new(policy).unwrap();
    let sites = [(direct, Destination::Code(two)), (through, Destination::Slot(slots))].map(
        |(function, hook)| {
            // SAFETY: (1) to (5): the test's own text, which only this test executes.
            unsafe { survey.adopt(address(function).offset(5), Role::Call, |to| to == hook) }
                .unwrap()
        },
    );
    let adopted = permissions(address(direct));
    assert_eq!([call(direct), call(through)], [2, 2]);
    for (to, returns) in [(Switch::Off, 1), (Switch::On, 2)] {
        sites.iter().for_each(|site| site.set(to).unwrap());
        assert_eq!([call(direct), call(through)], [returns; 2], "{access}");
    }
    let switched = set_all(&sites, Switch::Off);
    assert_eq!(
        (switched.changed, switched.failed.len(), call(direct), call(through)),
        (2, 0, 1, 1)
    );
    assert_eq!(set_all(&sites, Switch::On).changed, 2);
    let [mut direct_site, mut through_site] = sites;
    // SAFETY: (1) the other hook, and its slot.
    unsafe {
        direct_site.retarget(three, &policy).unwrap();
        through_site.retarget(slots.offset(8), &policy).unwrap();
    }
    assert_eq!([call(direct), call(through)], [3, 3], "{access}");
    let settled = |site: &CallSite| site.is_settled() && site.is_on();
    assert!(settled(&direct_site) && settled(&through_site));
    [adopted, permissions(address(direct))]
}

#[test]
fn pages_that_hold_sites_are_writable_from_their_adoption_on() {
    assert_eq!(exercise(Access::Rwx, callpatch_rwx, callpatch_rwx_memory), ["rwx", "rwx"]);
}

#[test]
fn lazily_they_are_writable_from_the_first_switch_on() {
    assert_eq!(exercise(Access::RwxLazy, callpatch_lazy, callpatch_lazy_memory), ["r-x", "rwx"]);
}

#[test]
fn in_batches_they_are_writable_only_meanwhile() {
    assert_eq!(exercise(Access::Batch, callpatch_batch, callpatch_batch_memory), ["r-x", "r-x"]);
}

#[test]
fn through_the_kernel_they_are_never_writable() {
    assert_eq!(
        exercise(Access::ProcMem, callpatch_procmem, callpatch_procmem_memory),
        ["r-x", "r-x"]
    );
}
