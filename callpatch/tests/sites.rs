//! Sites of every form: adopted, switched, refused.
#![allow(unsafe_code)]

mod support;

use callpatch::{AdoptError, CallSite, Destination, Form, Role, SetError, Survey, Switch, set_all};
use support::{Function, OFF, kinds};
use wordpatch::{CodeAddr, CodeMemory, Policy};

fn policy() -> Policy {
    Policy::new().unwrap()
}

#[test]
fn a_site_of_every_form_is_switched_off_and_on_at_every_offset() {
    let mut survey = Survey::new(policy()).unwrap();
    for (form, role) in kinds() {
        for at in 512..576 {
            let function = Function::new(form, role, at);
            let site = function.adopt_by(&mut survey);
            assert_eq!(
                (site.state(), site.destination(), function.call()),
                (Some(Switch::On), function.leads_to(0), 2)
            );
            for (to, returns) in [
                (Switch::Off, OFF),
                (Switch::Off, OFF),
                (Switch::On, 2),
                (Switch::On, 2),
                (Switch::Off, OFF),
            ] {
                site.set(to).unwrap();
                assert_eq!(
                    (site.state(), function.call()),
                    (Some(to), returns),
                    "{form:?} {role:?} at {at}"
                );
            }
        }
    }
}

#[test]
fn a_breakpoint_is_reported_and_kept() {
    for (form, role) in kinds() {
        let mut function = Function::new(form, role, 512);
        let site = function.adopt(&policy());
        let at = form.switch_at() as isize;
        function.write(at, &[0xcc]);
        for to in [Switch::Off, Switch::On] {
            let error = site.set(to).unwrap_err();
            assert!(
                matches!(error, SetError::Foreign { address, found, .. } if address == site.address() && found.bytes() == [0xcc])
            );
            assert!(
                error.to_string().contains("cc") && !error.to_string().contains('\n'),
                "{error}"
            );
        }
        assert_eq!((site.state(), function.byte(at)), (None, 0xcc));
        function.write(at, &[form.on()]);
        site.set(Switch::Off).unwrap();
        assert_eq!(function.call(), OFF);
    }
}

/// The error of adopting the bytes.
fn refusal(bytes: &[u8], role: Role, is_hook: impl Fn(Destination) -> bool) -> AdoptError {
    let mut memory = CodeMemory::new(4096).unwrap();
    memory.write(64, bytes);
    // SAFETY: (1) to (5): no thread executes the bytes, and they are refused.
    unsafe { CallSite::adopt(memory.base().offset(64), role, &policy(), is_hook) }.unwrap_err()
}

#[test]
fn a_call_of_the_programs_own_is_refused() {
    let function = Function::new(Form::Call, Role::Call, 512);
    // SAFETY: (1) to (5): refused.
    let refused = unsafe {
        CallSite::adopt(function.site_at(), Role::Call, &policy(), |to| to == function.leads_to(1))
    };
    let expected = AdoptError::Elsewhere {
        address: function.site_at(),
        form: Form::Call,
        destination: function.leads_to(0),
    };
    assert_eq!(refused.unwrap_err(), expected);
}

#[test]
fn what_is_no_transfer_of_control_is_refused_with_its_bytes() {
    let error = refusal(&[0x0f, 0x1f, 0x44, 0, 0], Role::Call, |_| true);
    assert!(
        matches!(error, AdoptError::NoTransfer { found, .. } if found.bytes() == [0x0f, 0x1f, 0x44, 0, 0, 0]),
        "{error}"
    );
    // SAFETY: (1) to (5): refused.
    let unmapped = unsafe { CallSite::adopt(CodeAddr::new(64), Role::Call, &policy(), |_| true) };
    assert!(matches!(
        unmapped,
        Err(AdoptError::PatchRegion(wordpatch::AdoptError::Unmapped { .. }))
    ));
}

#[test]
fn a_site_at_the_very_end_of_the_code_is_adopted() {
    for (form, role) in kinds() {
        let mut memory = CodeMemory::new(4096).unwrap();
        let at = 4096 - form.len();
        memory.write(at, &form.bytes(0));
        // SAFETY: (1) to (5): no thread executes the bytes.
        let site = unsafe {
            CallSite::adopt(memory.base().offset(at as isize), role, &policy(), |_| true)
        }
        .unwrap();
        assert_eq!(site.state(), Some(Switch::On));
    }
}

#[test]
fn a_role_that_the_form_cannot_have_is_refused() {
    for form in Form::ALL {
        for role in [Role::Call, Role::TailJump, Role::Detour] {
            if form.off(role).is_none() {
                let error = refusal(&form.bytes(64), role, |_| true);
                assert!(
                    matches!(error, AdoptError::Role { form: f, role: r, .. } if (f, r) == (form, role)),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn a_conditional_jump_to_a_hook_is_told_apart_by_type() {
    for bytes in [&[0x74, 0x10][..], &[0x0f, 0x85, 0x10, 0, 0, 0]] {
        match refusal(bytes, Role::TailJump, |_| true) {
            AdoptError::Conditional(jump) => {
                assert_eq!(jump.len, bytes.len());
                assert_eq!(jump.target, jump.address.offset(jump.len as isize + 0x10));
            }
            other => panic!("{other}"),
        }
        let elsewhere = refusal(bytes, Role::TailJump, |_| false);
        assert!(matches!(elsewhere, AdoptError::Elsewhere { .. }), "{elsewhere}");
    }
}

#[test]
fn linker_relaxed_forms_are_sites() {
    let call = Function::new(Form::PrefixedCall, Role::Call, 512);
    assert_eq!(call.adopt(&policy()).form(), Form::PrefixedCall);
    // A jump through a slot as the linker relaxes it: a jump, and a nop instead of its sixth byte.
    let mut jump = Function::new(Form::Jump, Role::TailJump, 512);
    jump.write(5, &[0x90, 0xc3]);
    let site = jump.adopt(&policy());
    site.set(Switch::Off).unwrap();
    assert_eq!((site.form(), jump.call(), jump.byte(5)), (Form::Jump, OFF, 0x90));
}

#[test]
fn a_call_into_the_linkage_table_leads_to_the_hook_whose_slot_it_is() {
    const STUB: usize = 256;
    for prefix in [&[][..], &[0xf3, 0x0f, 0x1e, 0xfa], &[0xf3, 0x0f, 0x1e, 0xfa, 0xf2]] {
        let mut memory = CodeMemory::new(4096).unwrap();
        let base = memory.base();
        let at = |offset: usize| base.offset(offset as isize);
        let jump = at(STUB + prefix.len());
        let stub = [
            prefix,
            &Form::JumpMemory.bytes(Form::JumpMemory.displacement(jump, at(2048)).unwrap()),
        ]
        .concat();
        memory.write(STUB, &stub);
        memory.write(64, &Form::Call.bytes(Form::Call.displacement(at(64), at(STUB)).unwrap()));
        // SAFETY: (1) to (5): no thread executes the call.
        let adopt = |slot| unsafe {
            CallSite::adopt(at(64), Role::Call, &policy(), |to| to == Destination::Slot(slot))
        };
        assert_eq!(adopt(at(2048)).unwrap().destination(), Destination::Code(at(STUB)));
        assert!(matches!(adopt(at(2056)), Err(AdoptError::Elsewhere { .. })));
        // A predicate that accepts the stub itself need not accept the slot.
        let is_stub = |to| to == Destination::Code(at(STUB));
        // SAFETY: as above.
        let site = unsafe { CallSite::adopt(at(64), Role::Call, &policy(), is_stub) };
        assert!(site.is_ok());
    }
}

#[test]
fn a_stub_at_the_very_end_of_the_code_is_read() {
    let mut memory = CodeMemory::new(4096).unwrap();
    let (site, stub) = (memory.base(), memory.base().offset(4096 - 6));
    memory.write(0, &Form::Call.bytes(Form::Call.displacement(site, stub).unwrap()));
    memory.write(4096 - 6, &Form::JumpMemory.bytes(0x100));
    // SAFETY: (1) to (5): no thread executes the call.
    let adopted = unsafe {
        CallSite::adopt(site, Role::Call, &policy(), |to| {
            to == Destination::Slot(stub.offset(0x106))
        })
    };
    assert!(adopted.is_ok(), "{adopted:?}");
}

#[test]
fn room_that_a_compiler_left_becomes_a_site_that_is_off() {
    let sled = [0xeb, 0x09, 0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x02, 0x00, 0x00];
    let clangs = [0x0f, 0x1f, 0x44, 0x00, 0x08];
    for was in [&[0x90; 5][..], &clangs, &sled, &[0x90; 15]] {
        for at in 256..320 {
            let mut memory = CodeMemory::new(4096).unwrap();
            let room = memory.base().offset(at);
            // After it: `mov eax, 7; ret`; at the target: `mov eax, 3; ret`.
            memory.write(at as usize, &[was, &[0xb8, 7, 0, 0, 0, 0xc3]].concat());
            memory.write(1024, &[0xb8, 3, 0, 0, 0, 0xc3]);
            let mut survey = Survey::new(policy()).unwrap();
            // SAFETY: (1) to (5): the test's own code, which no thread executes yet.
            unsafe {
                let other = survey.make_detour(room, &vec![0xcc; was.len()]).unwrap_err();
                assert!(matches!(other, AdoptError::NotOff { .. }), "{other}");
                survey.make_detour(room, was).unwrap();
                let mut site = survey.adopt_off(room, Form::Jump, Role::Detour).unwrap();
                let call: extern "C" fn() -> i32 = std::mem::transmute(room.get());
                assert_eq!(call(), 7, "{was:x?} at {at}");
                let mut batch = callpatch::Retarget::new(policy());
                batch.push(&mut site, memory.base().offset(1024)).unwrap();
                batch.commit().unwrap();
                for (to, expected) in [(Switch::Off, 7), (Switch::On, 3), (Switch::Off, 7)] {
                    site.set(to).unwrap();
                    assert_eq!(call(), expected, "{was:x?} at {at}");
                }
            }
        }
    }
}

/// The survey has seen code after the stub's page; that code is unmapped before the stub is read.
#[test]
fn nothing_behind_a_stub_is_read() {
    for ends in [&Form::JumpMemory.bytes(0x100)[..], &[0xc3]] {
        let mut memory = CodeMemory::new(2 * 4096).unwrap();
        let (site, stub) = (memory.base(), memory.base().offset(4096 - ends.len() as isize));
        memory.write(0, &Form::Call.bytes(Form::Call.displacement(site, stub).unwrap()));
        memory.write(4096 - ends.len(), ends);
        let mut survey = Survey::new(policy()).unwrap();
        // SAFETY: no thread uses the second page; nothing else is mapped there, since the whole
        // range stays reserved.
        let unmapped = unsafe {
            libc::mprotect((memory.base().get() + 4096) as *mut _, 4096, libc::PROT_NONE)
        };
        assert_eq!(unmapped, 0);
        // SAFETY: (1) to (5): no thread executes the call.
        let adopted = unsafe {
            survey.adopt(site, Role::Call, |to| to == Destination::Slot(stub.offset(0x106)))
        };
        assert_eq!(adopted.is_ok(), ends.len() == 6, "{adopted:?}");
    }
}

#[test]
fn a_site_that_was_made_off_is_adopted_by_its_form() {
    for (form, role) in kinds() {
        let mut function = Function::new(form, role, 512);
        let mut survey = Survey::new(policy()).unwrap();
        // SAFETY: (1) to (5): the test's own function.
        let refused = unsafe { survey.adopt_off(function.site_at(), form, role) }.unwrap_err();
        assert!(
            matches!(refused, AdoptError::NotOff { found, .. } if found == form.on()),
            "{refused}"
        );
        function.write(form.switch_at() as isize, &[form.off(role).unwrap()]);
        // SAFETY: as above.
        let site = unsafe { survey.adopt_off(function.site_at(), form, role) }.unwrap();
        assert_eq!((site.state(), function.call()), (Some(Switch::Off), OFF));
        site.set(Switch::On).unwrap();
        assert_eq!(function.call(), 2);
    }
}

#[test]
fn many_sites_are_switched_at_once_and_a_foreign_one_is_named() {
    let mut survey = Survey::new(policy()).unwrap();
    let mut functions: Vec<Function> =
        (0..100).map(|i| Function::new(Form::Call, Role::Call, 512 + i)).collect();
    let sites: Vec<CallSite> =
        functions.iter().map(|function| function.adopt_by(&mut survey)).collect();
    sites[7].set(Switch::Off).unwrap();
    functions[3].write(0, &[0xcc]);
    let switched = set_all(&sites, Switch::Off);
    assert_eq!((switched.changed, switched.unchanged, switched.failed.len()), (98, 1, 1));
    assert!(
        matches!(switched.failed[0], SetError::Foreign { address, .. } if address == sites[3].address())
    );
    assert!(
        functions
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != 3)
            .all(|(_, function)| function.call() == OFF)
    );
}

#[test]
fn threads_that_switch_a_site_never_make_anything_else_of_it() {
    let function = &Function::new(Form::Call, Role::Call, 62);
    let site = &function.adopt(&policy());
    std::thread::scope(|scope| {
        for to in [Switch::On, Switch::Off] {
            scope.spawn(move || (0..100_000).for_each(|_| site.set(to).unwrap()));
        }
        scope.spawn(|| (0..100_000).for_each(|_| assert!([OFF, 2].contains(&function.call()))));
    });
}
