//! Instructions that read or write a memory: their widths in bytes, and their operands.

use wasm_aot_body::events;
use wasm_encoder::{MemArg, MemArgTarget, ValType};

/// An access of a memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Access {
    /// The opcode, if it is a plain load or store of a number.
    pub(crate) plain: Option<u8>,
    /// The operands on the stack above the address.
    pub(crate) operands: Vec<ValType>,
    pub(crate) reads: bool,
    pub(crate) writes: bool,
    pub(crate) width: u32,
    pub(crate) memory: u32,
    pub(crate) offset: u64,
    pub(crate) align: u32,
}

impl Access {
    /// Decodes an instruction's bytes, if it is an access.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let name = events::by_code(events::code_of(bytes)?)?.name;
        let (of, what) = name.split_once('.')?;
        let ty = match of {
            "i32" => ValType::I32,
            "i64" => ValType::I64,
            "f32" => ValType::F32,
            "f64" => ValType::F64,
            "v128" => ValType::V128,
            "memory" if what.starts_with("atomic.wait") => ValType::I64,
            _ => return None,
        };
        let (is_atomic, what) = match what.strip_prefix("atomic.") {
            Some(what) => (true, what),
            None => (false, what),
        };
        let begins = |word: &str| what.strip_prefix(word);
        let (reads, writes, rest) = if let Some(rest) = begins("load") {
            (true, false, rest)
        } else if let Some(rest) = begins("store") {
            (false, true, rest)
        } else if let Some(rest) = begins("rmw") {
            (true, true, rest)
        } else {
            return None;
        };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let own = match ty {
            ValType::I32 | ValType::F32 => 4,
            ValType::V128 => 16,
            _ => 8,
        };
        let width = match digits.parse::<u32>() {
            // Eight bytes that are widened: load8x8, load16x4, load32x2.
            Ok(_) if rest[digits.len()..].starts_with('x') => 8,
            Ok(bits) => bits / 8,
            Err(_) => own,
        };
        let is_lane = rest.ends_with("lane");
        let operands = match (reads, writes) {
            (true, true) if rest.contains("cmpxchg") => vec![ty, ty],
            (true, true) | (false, true) => vec![ty],
            _ if is_lane => vec![ValType::V128],
            _ => Vec::new(),
        };
        let is_plain = !is_atomic && ty != ValType::V128;
        let (memory, offset, align) = memarg(bytes)?;
        let plain = is_plain.then_some(bytes[0]);
        Some(Self { plain, operands, reads, writes, width, memory, offset, align })
    }

    /// The number of bytes from its address to its end.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.width.into())
    }

    /// The same access of another memory.
    pub(crate) fn arg(&self, memory: u32) -> MemArg {
        let (offset, align) = (self.offset, self.align);
        MemArg { offset, align, target: MemArgTarget::Memory(memory), ordering: None }
    }
}

/// Memory, offset and alignment after an opcode.
fn memarg(bytes: &[u8]) -> Option<(u32, u64, u32)> {
    let mut rest = &bytes[1..];
    if bytes[0] >= 0xfc {
        number(&mut rest)?;
    }
    let flags = number(&mut rest)? as u32;
    let memory = if flags & 0x40 == 0 { 0 } else { number(&mut rest)? as u32 };
    Some((memory, number(&mut rest)?, flags & 0x3f))
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(text: &str) -> Access {
        let text = format!("(module (memory 1) (memory 1) (func unreachable {text} unreachable))");
        let module = wat::parse_str(text).expect("a module");
        let program = whamm_rewrite::Program::decode(&module).expect("a module");
        let all = program.bodies[0].instructions().expect("instructions");
        let place = all[1].place.clone();
        Access::read(&module[place.start as usize..place.end as usize]).expect("an access")
    }

    #[test]
    fn accesses_are_known_by_their_names() {
        let plain = access("i32.load16_u offset=5");
        assert_eq!((plain.width, plain.offset, plain.memory), (2, 5, 0));
        assert!(plain.plain.is_some() && plain.reads && plain.operands.is_empty());
        let float = access("f64.store 1 offset=300 align=1");
        assert_eq!((float.width, float.offset, float.memory), (8, 300, 1));
        assert!(float.plain.is_some() && float.writes && float.operands == [ValType::F64]);
        for (text, width, operands) in [
            ("v128.load", 16, 0),
            ("v128.load16x4_u", 8, 0),
            ("v128.load32_splat", 4, 0),
            ("v128.load64_zero", 8, 0),
            ("v128.load8_lane 3", 1, 1),
            ("v128.store32_lane 1", 4, 1),
            ("v128.store", 16, 1),
            ("i64.atomic.load32_u", 4, 0),
            ("i32.atomic.store8", 1, 1),
            ("i64.atomic.rmw16.add_u", 2, 1),
            ("i32.atomic.rmw.cmpxchg", 4, 2),
        ] {
            let found = access(text);
            assert_eq!((found.width, found.operands.len()), (width, operands), "{text}");
            assert_eq!(found.plain, None, "{text}");
        }
    }
}
