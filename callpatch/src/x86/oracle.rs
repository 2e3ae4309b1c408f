//! Compares every byte that this crate writes with an independent decoder.

use super::*;
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpKind,
    Register,
};

const AT: CodeAddr = CodeAddr::new(0x5555_0000_1000);

fn read(bytes: &[u8]) -> Instruction {
    Decoder::with_ip(64, bytes, AT.get() as u64, DecoderOptions::NONE).decode()
}

/// Displacements with every value in every byte.
fn displacements() -> impl Iterator<Item = i32> {
    let bytes = (0..4).flat_map(|place| (0..=255u32).map(move |byte| (byte << (8 * place)) as i32));
    bytes.chain([i32::MIN, i32::MAX, -1, 0x0102_0304])
}

const ROLES: [Role; 3] = [Role::Call, Role::TailJump, Role::Detour];

#[test]
fn every_form_is_the_transfer_it_is_said_to_be() {
    for form in Form::ALL {
        for displacement in displacements() {
            let bytes = form.bytes(displacement);
            let instruction = read(&bytes);
            let expected = match form {
                Form::Call | Form::PrefixedCall => Code::Call_rel32_64,
                Form::CallMemory => Code::Call_rm64,
                Form::Jump => Code::Jmp_rel32_64,
                Form::JumpMemory => Code::Jmp_rm64,
            };
            assert_eq!((instruction.code(), instruction.len()), (expected, form.len()), "{form:?}");
            let leads_to = if form.is_through_memory() {
                assert_eq!(instruction.memory_base(), Register::RIP);
                instruction.memory_displacement64()
            } else {
                instruction.near_branch_target()
            };
            assert_eq!(form.destination(AT, displacement).get() as u64, leads_to);
            assert_eq!(form.displacement(AT, CodeAddr::new(leads_to as usize)), Some(displacement));
            assert_eq!(decode(AT, &bytes), Some(Transfer::Switchable { form, displacement }));
        }
    }
}

#[test]
fn what_remains_of_a_site_that_is_off_changes_nothing_but_flags() {
    let mut factory = InstructionInfoFactory::new();
    for (form, role) in Form::ALL.into_iter().flat_map(|form| ROLES.map(|role| (form, role))) {
        for displacement in displacements() {
            let Some(bytes) = form.off_bytes(role, displacement) else { continue };
            let instruction = read(&bytes);
            if role == Role::TailJump {
                assert_eq!((instruction.code(), instruction.len()), (Code::Retnq, 1), "{form:?}");
                continue;
            }
            assert_eq!(instruction.len(), form.len(), "{form:?} {role:?}");
            assert_eq!(instruction.flow_control(), FlowControl::Next);
            let info = factory.info(&instruction);
            assert!(
                info.used_registers().iter().all(|used| used.access() == iced_x86::OpAccess::Read),
                "{instruction:?}"
            );
            assert!(
                info.used_memory().iter().all(|used| used.access() == iced_x86::OpAccess::Read),
                "{instruction:?}"
            );
            assert_eq!(
                !info.used_memory().is_empty(),
                form.off_reads_memory(role),
                "{instruction:?}"
            );
            match form {
                Form::CallMemory | Form::JumpMemory => {
                    assert_eq!(instruction.code(), Code::Test_rm32_r32);
                    assert_eq!(
                        instruction.memory_displacement64(),
                        form.destination(AT, displacement).get() as u64
                    );
                }
                Form::Call | Form::PrefixedCall | Form::Jump => {
                    assert_eq!(
                        (instruction.code(), instruction.op1_kind()),
                        (Code::Test_EAX_imm32, OpKind::Immediate32)
                    );
                    assert_eq!(instruction.immediate32() as i32, displacement);
                }
            }
        }
    }
}

#[test]
fn with_some_displacements_what_remains_of_a_call_is_a_nop() {
    let ends = (0..=u16::MAX).map(|end| NOP_DISPLACEMENT + i32::from(end as i16) * NOP_STEP as i32);
    for (form, displacement) in [Form::Call, Form::PrefixedCall]
        .into_iter()
        .flat_map(|form| ends.clone().map(move |d| (form, d)))
    {
        let idle = form.idle_bytes(Role::Call, displacement).unwrap();
        let instruction = read(&idle);
        assert_eq!((instruction.code(), instruction.len()), (Code::Nop_rm32, form.len()));
        let on = form.bytes(displacement);
        let differ: Vec<usize> = (0..on.len()).filter(|&i| on[i] != idle[i]).collect();
        assert_eq!(differ, [form.switch_at()]);
    }
    // With all other displacements, and in all other roles, it is the guard.
    for (form, role) in Form::ALL.into_iter().flat_map(|form| ROLES.map(|role| (form, role))) {
        for displacement in displacements().filter(|d| d & 0xffff != NOP_DISPLACEMENT) {
            assert_eq!(form.idle(role, displacement), form.off(role));
        }
        if role != Role::Call || form.is_through_memory() {
            assert_eq!(form.idle(role, NOP_DISPLACEMENT), form.off(role));
        }
    }
}

#[test]
fn both_encodings_of_a_site_differ_in_its_switching_byte_alone() {
    for (form, role) in Form::ALL.into_iter().flat_map(|form| ROLES.map(|role| (form, role))) {
        let on = form.bytes(0x0102_0304);
        let Some(off) = form.off_bytes(role, 0x0102_0304) else { continue };
        let differ: Vec<usize> = (0..on.len()).filter(|&i| on[i] != off[i]).collect();
        assert_eq!(differ, [form.switch_at()]);
        assert_eq!(
            (on[form.switch_at()], Some(off[form.switch_at()])),
            (form.on(), form.off(role))
        );
    }
}

/// Every two bytes that an instruction can begin with.
#[test]
fn nothing_else_is_taken_for_a_transfer() {
    for (first, second) in
        (0..=255u8).flat_map(|first| (0..=255u8).map(move |second| (first, second)))
    {
        let bytes = [first, second, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60];
        let instruction = read(&bytes);
        let known = decode(AT, &bytes);
        let expected = match instruction.code() {
            Code::Call_rel32_64 if instruction.len() == 5 => Some(Form::Call),
            Code::Call_rel32_64 if first == 0x67 => Some(Form::PrefixedCall),
            Code::Jmp_rel32_64 if instruction.len() == 5 => Some(Form::Jump),
            Code::Call_rm64
                if instruction.memory_base() == Register::RIP && instruction.len() == 6 =>
            {
                Some(Form::CallMemory)
            }
            Code::Jmp_rm64
                if instruction.memory_base() == Register::RIP && instruction.len() == 6 =>
            {
                Some(Form::JumpMemory)
            }
            _ => None,
        };
        match known {
            Some(Transfer::Switchable { form, .. }) => {
                assert_eq!(
                    (Some(form), Some(form.len())),
                    (expected, length(first, second)),
                    "{first:02x} {second:02x}"
                );
            }
            Some(Transfer::Conditional(jump)) => {
                assert!(
                    instruction.is_jcc_short_or_near(),
                    "{first:02x} {second:02x} is {instruction:?}"
                );
                assert_eq!((jump.len, Some(jump.len)), (instruction.len(), length(first, second)));
                assert_eq!(jump.target.get() as u64, instruction.near_branch_target());
            }
            None => {
                assert_eq!(
                    (expected, length(first, second)),
                    (None, None),
                    "{first:02x} {second:02x} is {instruction:?}"
                );
                // A conditional jump with a prefix need not be recognised.
                assert!(
                    !instruction.is_jcc_short_or_near()
                        || matches!(first, 0x26..=0x67 | 0xf0..=0xf3),
                    "{instruction:?}"
                );
            }
        }
    }
}

#[test]
fn an_instruction_that_is_cut_off_is_unknown() {
    for form in Form::ALL {
        let bytes = form.bytes(7);
        assert!((0..form.len()).all(|len| decode(AT, &bytes[..len]).is_none()), "{form:?}");
    }
    assert_eq!((decode(AT, &[0x74]), decode(AT, &[0x0f, 0x84, 0, 0, 0])), (None, None));
}

#[test]
fn linkage_stubs_of_every_kind_name_their_slot() {
    let prefixes: [&[u8]; 4] =
        [&[], &[0xf2], &[0xf3, 0x0f, 0x1e, 0xfa], &[0xf3, 0x0f, 0x1e, 0xfa, 0xf2]];
    for prefix in prefixes {
        for displacement in displacements() {
            let bytes = [prefix, &Form::JumpMemory.bytes(displacement)].concat();
            assert_eq!(stub_len(&bytes), Some(bytes.len()));
            assert!((0..bytes.len()).all(|len| {
                stub_len(&bytes[..len]).is_some_and(|stub| len < stub && stub <= bytes.len())
            }));
            let mut decoder = Decoder::with_ip(64, &bytes, AT.get() as u64, DecoderOptions::NONE);
            let jump = decoder.iter().last().unwrap();
            assert_eq!(jump.code(), Code::Jmp_rm64);
            assert_eq!(
                stub_slot(AT, &bytes).map(|slot| slot.get() as u64),
                Some(jump.memory_displacement64())
            );
            assert_eq!(stub_slot(AT, &bytes[..bytes.len() - 1]), None);
        }
    }
    // A push and a jump to the resolver, a jump elsewhere, no bytes.
    for other in [&[0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0, 0x90][..], &[0xe9, 0, 0, 0, 0], &[]] {
        assert_eq!(stub_slot(AT, other), None);
        assert_eq!(stub_len(other), (other.is_empty()).then_some(6));
    }
}

#[test]
fn what_stubs_are_made_of_is_what_it_is_said_to_be() {
    for number in displacements() {
        let mov = read(&mov_r11d(number as u32));
        assert_eq!(
            (mov.code(), mov.op0_register(), mov.immediate32() as i32),
            (Code::Mov_r32_imm32, Register::R11D, number)
        );
        let other = read(&mov_r10d(number as u32));
        assert_eq!(
            (other.code(), other.op0_register(), other.immediate32() as i32),
            (Code::Mov_r32_imm32, Register::R10D, number)
        );
        let value = (number as u64) << 32 | number as u32 as u64;
        let function = AT.offset(7).offset(number as isize);
        let code = replace_rsi_unless(AT, function, value).unwrap();
        let all: Vec<Instruction> =
            Decoder::with_ip(64, &code, AT.get() as u64, DecoderOptions::NONE).iter().collect();
        let [load, compare, keep, skip, replace] = all[..] else { panic!("{all:?}") };
        assert_eq!(
            (load.code(), load.op0_register(), load.ip_rel_memory_address()),
            (Code::Lea_r64_m, Register::RDX, function.get() as u64)
        );
        assert_eq!(
            (compare.code(), compare.op0_register(), compare.op1_register()),
            (Code::Cmp_rm64_r64, Register::RDI, Register::RDX)
        );
        assert_eq!(
            (keep.code(), keep.op0_register(), keep.op1_register()),
            (Code::Mov_rm64_r64, Register::RDX, Register::RSI)
        );
        assert_eq!(
            (skip.code(), skip.near_branch_target()),
            (Code::Je_rel8_64, AT.get() as u64 + REPLACE_RSI as u64)
        );
        assert_eq!(
            (replace.code(), replace.op0_register(), replace.immediate64()),
            (Code::Mov_r64_imm64, Register::RSI, value)
        );
        let cell = AT.offset(7).offset(number as isize);
        let load = read(&load_r11d(AT, cell).unwrap());
        assert_eq!(
            (load.code(), load.op0_register(), load.memory_displacement64()),
            (Code::Mov_r32_rm32, Register::R11D, cell.get() as u64)
        );
        let slot = AT.offset(6).offset(number as isize);
        let through = read(&jump_through(AT, slot).unwrap());
        assert_eq!(
            (through.code(), through.memory_displacement64()),
            (Code::Jmp_rm64, slot.get() as u64)
        );
        let to = AT.offset(5).offset(number as isize);
        let near = read(&jump(AT, to).unwrap());
        assert_eq!((near.code(), near.near_branch_target()), (Code::Jmp_rel32_64, to.get() as u64));
    }
    assert_eq!(
        (jump(AT, AT.offset(5 + (1 << 31))), jump(AT, AT.offset(5 - 1 - (1 << 31)))),
        (None, None)
    );
    let far = far_jump(CodeAddr::new(0x7fff_1234_5678));
    let jump = read(&far);
    assert_eq!(
        (jump.code(), jump.len(), jump.memory_displacement64()),
        (Code::Jmp_rm64, 6, AT.get() as u64 + 6)
    );
    assert_eq!(u64::from_le_bytes(far[6..].try_into().unwrap()), 0x7fff_1234_5678);
    assert_eq!(read(&[RET]).code(), Code::Retnq);
    assert_eq!(read(&[NOP]).code(), Code::Nopd);
    assert_eq!((read(&NOP5).code(), read(&NOP5).len()), (Code::Nop_rm32, 5));
    let skip = read(&SKIP_THREE);
    assert_eq!((skip.code(), skip.near_branch_target()), (Code::Jmp_rel8_64, AT.get() as u64 + 5));
}

#[test]
fn a_counter_in_line_is_what_it_is_said_to_be() {
    for (thread, key, count) in [(-8, 0x1_2000, 0x1_2008), (i32::MIN, 0, i32::MAX), (64, -1, 1)] {
        let bytes = counter(thread, key, count);
        let behind = AT.get() as u64 + bytes.len() as u64;
        let decoder = Decoder::with_ip(64, &bytes, AT.get() as u64, DecoderOptions::NONE);
        let all: Vec<Instruction> = decoder.into_iter().collect();
        let codes: Vec<Code> = all.iter().map(Instruction::code).collect();
        let expected = [
            Code::Mov_r64_rm64,
            Code::Test_rm64_r64,
            Code::Je_rel8_64,
            Code::Cmp_r64_rm64,
            Code::Jne_rel8_64,
            Code::Inc_rm64,
            Code::Retnq,
        ];
        assert_eq!(codes, expected);
        assert_eq!((all[0].op0_register(), all[0].segment_prefix()), (Register::R9, Register::FS));
        assert_eq!(
            (all[0].memory_base(), all[0].memory_displacement64()),
            (Register::None, thread as i64 as u64)
        );
        assert_eq!((all[1].op0_register(), all[1].op1_register()), (Register::R9, Register::R9));
        assert_eq!((all[2].near_branch_target(), all[4].near_branch_target()), (behind, behind));
        assert_eq!((all[3].op0_register(), all[3].memory_base()), (Register::RDI, Register::R9));
        assert_eq!(
            (all[3].memory_displacement64(), all[5].memory_displacement64()),
            (key as i64 as u64, count as i64 as u64)
        );
        assert_eq!(all[5].memory_base(), Register::R9);
    }
}

/// The instructions of a stub as text, by their addresses.
fn listed(code: &[u8]) -> Vec<String> {
    use iced_x86::Formatter as _;
    let mut formatter = iced_x86::IntelFormatter::new();
    let all = Decoder::with_ip(64, code, 0, DecoderOptions::NONE).into_iter();
    all.map(|instruction| {
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        format!("{:02}: {text}", instruction.ip())
    })
    .collect()
}

#[test]
fn a_stub_that_disarms_its_site_is_what_it_is_said_to_be() {
    let expected = [
        "00: push rax",
        "01: push rcx",
        "02: mov rax,[rsp+10h]",
        "07: mov rcx,123456789ABCDEF0h",
        "17: mov byte ptr [rax+rcx],0A9h",
        "21: pop rcx",
        "22: pop rax",
        "23: ret",
    ];
    assert_eq!(listed(&stubs::self_disarming(0x1234_5678_9abc_def0 + 5)), expected);
}

#[test]
fn a_stub_that_counts_is_what_it_is_said_to_be() {
    let expected = [
        "00: push rax",
        "01: mov rax,1122334455667788h",
        "11: lock inc qword ptr [rax]",
        "15: cmp qword ptr [rax+8],0FFFFFFFFFFFFFFFFh",
        "20: jne short 0000000000000018h",
        "22: pop rax",
        "23: ret",
        "24: lock bts dword ptr [rax+10h],0",
        "30: jb short 0000000000000016h",
        "32: push rcx",
        "33: mov rcx,[rax]",
        "36: cmp rcx,[rax+8]",
        "40: jbe short 0000000000000037h",
        "42: mov rcx,99AABBCCDDEEFF00h",
        "52: mov byte ptr [rcx],0A9h",
        "55: pop rcx",
        "56: mov dword ptr [rax+10h],0",
        "63: jmp short 0000000000000016h",
    ];
    assert_eq!(listed(&stubs::counting(0x1122_3344_5566_7788, 0x99aa_bbcc_ddee_ff00)), expected);
}

#[test]
fn a_stub_that_keeps_registers_is_what_it_is_said_to_be() {
    let kept = ["rax", "rcx", "rdx", "rbx", "rsi", "rdi", "r8", "r9", "r10", "r11"];
    let at = |register: usize| match register {
        0 => "[rsp]".to_owned(),
        _ => format!("[rsp+{:X}h]", 16 * register),
    };
    let push = kept.iter().map(|register| format!("push {register}"));
    let pop = kept.iter().rev().map(|register| format!("pop {register}"));
    let store = (0..16).map(|register| format!("movups {},xmm{register}", at(register)));
    let load = (0..16).map(|register| format!("movups xmm{register},{}", at(register)));
    let expected: Vec<String> = push
        .chain(["mov rbx,rsp", "mov rsi,[rbx+50h]"].map(String::from))
        .chain(["sub rsp,100h", "and rsp,0FFFFFFFFFFFFFFF0h"].map(String::from))
        .chain(store)
        .chain(["mov rdi,99AABBCCDDEEFF00h", "mov rax,1122334455667788h"].map(String::from))
        .chain(std::iter::once("call rax".to_owned()))
        .chain(load)
        .chain(std::iter::once("mov rsp,rbx".to_owned()))
        .chain(pop)
        .chain(std::iter::once("ret".to_owned()))
        .collect();
    let listed = listed(&stubs::keeping(0x1122_3344_5566_7788, 0x99aa_bbcc_ddee_ff00));
    let plain = |line: &String| {
        let text = line.split_once(": ").expect("where it is").1;
        // The formatter writes numbers with as many digits as they need.
        text.replace("+0F0h", "+F0h")
            .replace("+0E0h", "+E0h")
            .replace("+0D0h", "+D0h")
            .replace("+0C0h", "+C0h")
            .replace("+0B0h", "+B0h")
            .replace("+0A0h", "+A0h")
    };
    assert_eq!(listed.iter().map(plain).collect::<Vec<_>>(), expected);
}

#[test]
fn room_is_filled_with_instructions_that_do_nothing() {
    for len in 0..=40 {
        let mut bytes = vec![0xcc; len];
        stubs::fill_with_nothing(&mut bytes);
        let all: Vec<_> = Decoder::new(64, &bytes, DecoderOptions::NONE).into_iter().collect();
        assert!(all.iter().all(|one| one.mnemonic() == iced_x86::Mnemonic::Nop), "{len}");
        assert_eq!((all.iter().map(Instruction::len).sum(), all.len()), (len, len.div_ceil(9)));
    }
}

#[test]
fn a_hook_of_a_pun_is_what_it_is_said_to_be() {
    let (slot, cell) = (AT.offset(0x1000), AT.offset(0x2000));
    let expected = [
        "00: lea rsp,[rsp-80h]",
        "05: push rsi",
        "06: push r10",
        "08: push r11",
        "10: mov rsi,[rsp+0A8h]",
        "18: mov r11d,[2000h]",
        "25: mov r10d,1234h",
        "31: call qword ptr [1000h]",
        "37: pop r11",
        "39: pop r10",
        "41: pop rsi",
        "42: lea rsp,[rsp+80h]",
    ];
    let hook = keeping::hook(AT, 0x1234, 16, slot, cell).unwrap();
    assert_eq!(listed(&hook), expected);
    assert_eq!(hook.len(), keeping::HOOK);
}

#[test]
fn a_counter_of_a_pun_is_what_it_is_said_to_be() {
    let expected = [
        "00: push rax",
        "01: mov rax,fs:[0FFFFFFFFFFFFFFF8h]",
        "10: test rax,rax",
        "13: je short 0000000000000023h",
        "15: cmp qword ptr [rax+12000h],0",
        "23: je short 0000000000000023h",
        "25: inc qword ptr [rax+12008h]",
        "32: pop rax",
        "33: jmp short 0000000000000056h",
        "35: pop rax",
    ];
    assert_eq!(listed(&keeping::counter(-8, 0x1_2000, 0x1_2008)), expected);
}

/// Every instruction of this program that can be moved has the same effect elsewhere.
#[test]
fn what_is_moved_means_the_same() {
    let program = std::fs::read("/proc/self/exe").unwrap();
    let code = |header: &[u8]| {
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap()) as usize;
        (header[0] == 1 && header[4] & 1 != 0).then(|| (word(8), word(16), word(32)))
    };
    let headers = u64::from_le_bytes(program[32..40].try_into().unwrap()) as usize;
    let mut headers = program[headers..].chunks(56);
    let (offset, address, len) = headers.find_map(code).expect("a program has code");
    let bytes = &program[offset..offset + len];
    let mut decoder = Decoder::with_ip(64, bytes, address as u64, DecoderOptions::NONE);
    let mut moved = [0; 4];
    for turn in 0..400_000 {
        if !decoder.can_decode() {
            break;
        }
        let instruction = decoder.decode();
        let start = instruction.ip() as usize - address;
        let own = &bytes[start..start + instruction.len()];
        let relative = decoder.get_constant_offsets(&instruction).displacement_offset();
        let target = CodeAddr::new(instruction.near_branch_target() as usize);
        let movable = match instruction.flow_control() {
            _ if instruction.is_invalid() => continue,
            FlowControl::Next if instruction.is_ip_rel_memory_operand() => {
                Movable::Relative { bytes: own, at: relative }
            }
            FlowControl::Next | FlowControl::Return => Movable::Anywhere(own),
            FlowControl::UnconditionalBranch => Movable::Jump { to: target },
            FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
                Movable::Branch { condition: instruction.condition_code_nibble(), to: target }
            }
            _ => continue,
        };
        let from = CodeAddr::new(instruction.ip() as usize);
        let to = from.offset((turn as isize * 7919) % (1 << 30) + 4096);
        let mut code = Vec::new();
        assert!(movable.write(from, to, &mut code), "{instruction}");
        let mut elsewhere = Decoder::with_ip(64, &code, to.get() as u64, DecoderOptions::NONE);
        let other = elsewhere.decode();
        assert_eq!(code.len(), movable.len());
        let same = match movable {
            Movable::Anywhere(_) | Movable::Relative { .. } => other == instruction,
            Movable::Jump { .. } | Movable::Branch { .. } => {
                other.near_branch_target() == instruction.near_branch_target()
                    && other.condition_code() == instruction.condition_code()
                    && other.flow_control() == instruction.flow_control()
            }
        };
        assert!(same, "{instruction} and {other}");
        moved[match movable {
            Movable::Anywhere(_) => 0,
            Movable::Relative { .. } => 1,
            Movable::Jump { .. } => 2,
            Movable::Branch { .. } => 3,
        }] += 1;
    }
    assert!(moved.iter().all(|&count| count > 1000), "{moved:?}");
}

/// The processor's number of a condition.
trait Nibble {
    fn condition_code_nibble(&self) -> u8;
}

impl Nibble for Instruction {
    fn condition_code_nibble(&self) -> u8 {
        // o no b ae e ne be a s ns p np l ge le g, and `None` before them.
        self.condition_code() as u8 - 1
    }
}
