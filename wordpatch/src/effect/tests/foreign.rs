//! An independent decoder as oracle: iced-x86, in its Intel and its AMD mode.

use super::*;
use iced_x86::{
    Code, DecoderOptions, Instruction as Foreign, Mnemonic, OpKind, Register as ForeignRegister,
};

/// Calls `visit` with every encoding of interest: all opcodes after no or one prefix, and the known
/// opcodes also after two, with every ModRM byte where there is one. Further bytes are random.
fn encodings(mut visit: impl FnMut(&[u8], &mut Random)) {
    let mut random = Random(4);
    let mut each = |prefixes: &[u8], opcode: &[u8], every: usize| {
        for modrm in (0..=255).skip(random.below(every)).step_by(every) {
            let tail: [u8; 9] = random.bytes();
            visit(&[prefixes, opcode, &[modrm], &tail].concat(), &mut random);
        }
    };
    let all =
        (0..=255).map(|opcode| vec![opcode]).chain((0..=255).map(|opcode| vec![0x0f, opcode]));
    for opcode in all {
        each(&[], &opcode, 1);
        PREFIXES.iter().for_each(|&prefix| each(&[prefix], &opcode, 1));
    }
    for opcode in known_opcodes() {
        let has_modrm = matches!(
            opcode[..],
            [0x84 | 0x85 | 0xc6 | 0xc7 | 0xf6 | 0xf7 | 0xff] | [0x0f, 0x1e | 0x1f]
        );
        for first in PREFIXES {
            PREFIXES.iter().for_each(|&second| {
                each(&[first, second], &opcode, if has_modrm { 1 } else { 16 });
            });
        }
    }
}

fn foreign(at: CodeAddr, bytes: &[u8], options: u32) -> Foreign {
    iced_x86::Decoder::with_ip(64, bytes, at.get() as u64, options).decode()
}

/// The effect of an instruction of the oracle, if it belongs to the known families.
fn effect_of(foreign: &Foreign) -> Option<Effect> {
    use Mnemonic::*;
    match foreign.mnemonic() {
        Nop | Pause | Endbr32 | Endbr64 => Some(Effect::Skip),
        Jmp => Some(Effect::Jump(target(foreign)?)),
        Call => Some(Effect::Call(target(foreign)?)),
        Ret => returning(foreign),
        Test => testing(foreign),
        Mov => moving(foreign),
        _ => branching(foreign),
    }
}

fn target(foreign: &Foreign) -> Option<Target> {
    match (foreign.code(), foreign.op0_kind()) {
        (_, OpKind::NearBranch64) => {
            Some(Target::Code(CodeAddr::new(foreign.near_branch64() as usize)))
        }
        (Code::Jmp_rm64 | Code::Call_rm64, OpKind::Register) => match part(foreign.op0_register())?
        {
            Part::Low(register, _) => Some(Target::Register(register)),
            Part::High(_) => None,
        },
        (Code::Jmp_rm64 | Code::Call_rm64, OpKind::Memory) => {
            Some(Target::Memory(memory(foreign)?))
        }
        _ => None,
    }
}

fn memory(foreign: &Foreign) -> Option<u64> {
    let known = foreign.memory_base() == ForeignRegister::RIP
        && !matches!(foreign.segment_prefix(), ForeignRegister::FS | ForeignRegister::GS);
    known.then(|| foreign.ip_rel_memory_address())
}

fn returning(foreign: &Foreign) -> Option<Effect> {
    match foreign.code() {
        Code::Retnq => Some(Effect::Return { release: 0 }),
        Code::Retnq_imm16 => Some(Effect::Return { release: foreign.immediate16() }),
        _ => None,
    }
}

fn branching(foreign: &Foreign) -> Option<Effect> {
    use Mnemonic::*;
    const IN_ORDER: [Mnemonic; 16] =
        [Jo, Jno, Jb, Jae, Je, Jne, Jbe, Ja, Js, Jns, Jp, Jnp, Jl, Jge, Jle, Jg];
    let condition = match IN_ORDER.iter().position(|&mnemonic| mnemonic == foreign.mnemonic()) {
        Some(code) => Condition::Flags(code as u8),
        None if foreign.code() == Code::Jrcxz_rel8_64 => Condition::CounterIsZero,
        None => return None,
    };
    match target(foreign)? {
        Target::Code(target) => Some(Effect::Branch(condition, target)),
        _ => None,
    }
}

fn testing(foreign: &Foreign) -> Option<Effect> {
    let (left, right) = (foreign.op0_kind(), foreign.op1_kind());
    let wide =
        if left == OpKind::Register { foreign.op0_register() } else { foreign.op1_register() };
    let width = Width::at_least(wide.size());
    let left = match left {
        OpKind::Register => Operand::Part(part(foreign.op0_register())?),
        _ if right == OpKind::Register => Operand::Memory(memory(foreign)?),
        _ => return None,
    };
    let right = match right {
        OpKind::Register => Operand::Part(part(foreign.op1_register())?),
        _ => Operand::Constant(machine::truncate(foreign.immediate(1), width)),
    };
    // The alias F6 /1 and F7 /1, which AMD does not document.
    let alias = matches!(
        foreign.code(),
        Code::Test_rm8_imm8_F6r1
            | Code::Test_rm16_imm16_F7r1
            | Code::Test_rm32_imm32_F7r1
            | Code::Test_rm64_imm32_F7r1
    );
    (!alias).then_some(Effect::Test { width, left, right })
}

fn moving(foreign: &Foreign) -> Option<Effect> {
    use OpKind::*;
    let constant = matches!(
        foreign.op1_kind(),
        Immediate8 | Immediate16 | Immediate32 | Immediate64 | Immediate32to64
    );
    if foreign.op0_kind() != Register || !constant {
        return None;
    }
    let width = Width::at_least(foreign.op0_register().size());
    Some(Effect::Move {
        to: part(foreign.op0_register())?,
        value: machine::truncate(foreign.immediate(1), width),
    })
}

fn part(register: ForeignRegister) -> Option<Part> {
    use ForeignRegister::{AH, BH, CH, DH};
    match register {
        AH | BH | CH | DH => {
            let number = [AH, CH, DH, BH].iter().position(|&high| high == register)?;
            Some(Part::High(Register::ALL[number]))
        }
        _ => {
            register.is_gpr().then_some(())?;
            Some(Part::Low(
                Register::ALL[register.full_register().number()],
                Width::at_least(register.size()),
            ))
        }
    }
}

/// Whether compilers, assemblers and linkers emit such prefixes before this instruction, so that
/// the decoder must know it.
fn usual(bytes: &[u8], foreign: &Foreign) -> bool {
    let prefixes = &bytes[..bytes.iter().take_while(|byte| PREFIXES.contains(byte)).count()];
    let is_rex = |byte: &u8| (0x40..=0x4f).contains(byte);
    let legacy = match prefixes {
        [legacy @ .., last] if is_rex(last) => legacy,
        all => all,
    };
    let repeats = [0xf2, 0xf3].map(|repeat| legacy.iter().filter(|&&byte| byte == repeat).count());
    let may_precede: &[u8] = match (foreign.mnemonic(), foreign.code()) {
        (Mnemonic::Pause | Mnemonic::Endbr32 | Mnemonic::Endbr64, _) => return prefixes == [0xf3],
        (_, Code::Jrcxz_rel8_64) => return prefixes.is_empty(),
        (Mnemonic::Nop, _) => &[0x66, 0x67, 0x2e],
        (Mnemonic::Test | Mnemonic::Mov, _) => &[0x66],
        (Mnemonic::Ret, Code::Retnq) => &[0xf2, 0xf3],
        (Mnemonic::Ret, _) => &[0xf2],
        (_, Code::Call_rel32_64 | Code::Jmp_rel32_64) => &[0x67, 0xf2, 0x2e],
        _ => &[0xf2, 0x2e, 0x3e],
    };
    legacy.iter().all(|byte| may_precede.contains(byte)) && !repeats.iter().all(|&count| count > 0)
}

#[test]
fn a_foreign_decoder_agrees_on_everything_that_is_known_and_misses_nothing_usual() {
    let mut known = 0;
    encodings(|bytes, random| {
        let at = CodeAddr::new(random.next() as usize);
        let intel = foreign(at, bytes, DecoderOptions::NONE);
        let Some(ours) = decode(at, bytes) else {
            let ours_to_know = effect_of(&intel).is_some() && usual(bytes, &intel);
            assert!(!ours_to_know, "{bytes:02x?} is not known: {:?}", intel.code());
            return;
        };
        let amd = foreign(at, bytes, DecoderOptions::AMD);
        for theirs in [intel, amd] {
            assert_eq!(ours.len(), theirs.len(), "{bytes:02x?}: {:?}", theirs.code());
            assert_eq!(Some(ours.effect), effect_of(&theirs), "{bytes:02x?}: {:?}", theirs.code());
        }
        known += 1;
    });
    assert!(known > 200_000, "only {known} encodings were compared");
}

#[test]
fn the_nops_of_assemblers_are_known_up_to_fifteen_bytes() {
    // GNU as and LLVM put up to six 66 and a CS in front of the longest form, and the manuals of
    // both vendors list the others.
    let nop: [&[u8]; 9] = [
        &[0x90],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0x40, 0x00],
        &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
        &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
        &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
    ];
    for bytes in nop {
        for more in 0..=15 - bytes.len() {
            let bytes = [&vec![0x66; more], bytes].concat();
            let expected = Some(Instruction { len: bytes.len() as u8, effect: Effect::Skip });
            assert_eq!(decode(CodeAddr::new(0), &bytes), expected, "{bytes:02x?}");
        }
    }
}
