//! The sites of a program as monitor modules see them: what the body of a function says ([`Site`]),
//! and what monitors ask of it.

pub(crate) use wasm_aot_body::events::Nesting;
pub(crate) use wasm_aot_body::replacement::is_replaced;
pub(crate) use wasm_aot_body::{Site, sites};
use wasmparser::{BinaryReader, BlockType, Operator};

/// Whether the function ends with an instruction.
pub(crate) fn ends_function(operator: &Operator<'_>) -> bool {
    use Operator as O;
    matches!(
        operator,
        O::Return | O::ReturnCall { .. } | O::ReturnCallIndirect { .. } | O::ReturnCallRef { .. }
    )
}

/// Whether a probe may be called on the way to where an instruction branches.
pub(crate) fn is_branch(operator: &Operator<'_>) -> bool {
    matches!(operator, Operator::Br { .. } | Operator::BrIf { .. } | Operator::BrTable { .. })
}

/// An immediate of an instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Immediate {
    I32(i32),
    I64(i64),
    F32(u32),
    F64(u64),
    V128(i128),
}

/// The immediates of an instruction, in the order in which they are encoded. A list of labels is
/// preceded by their number without the default; an access to memory has flags, the memory and the
/// offset, and then the lane if it is one's.
pub(crate) fn immediates(site: &Site<'_>) -> Vec<Immediate> {
    use Operator as O;
    let bytes = site.bytes;
    let n = |number: u32| Immediate::I32(number.cast_signed());
    match &site.operator {
        O::I32Const { value } => vec![Immediate::I32(*value)],
        O::I64Const { value } => vec![Immediate::I64(*value)],
        O::F32Const { value } => vec![Immediate::F32(value.bits())],
        O::F64Const { value } => vec![Immediate::F64(value.bits())],
        O::V128Const { value } => vec![Immediate::V128(value.i128())],
        O::BrTable { targets } => {
            let labels = targets.targets().flatten().chain([targets.default()]).map(n);
            [n(targets.len())].into_iter().chain(labels).collect()
        }
        O::Block { blockty } | O::Loop { blockty } | O::If { blockty } | O::Try { blockty } => {
            vec![Immediate::I32(match blockty {
                BlockType::Empty => -64,
                BlockType::Type(_) => signed(bytes.get(1..).unwrap_or_default()),
                BlockType::FuncType(index) => index.cast_signed(),
            })]
        }
        _ if site.event.is_some_and(|event| event.accessed().is_some()) => {
            accessed(site).unwrap_or_default()
        }
        O::Else
        | O::End
        | O::Nop
        | O::Unreachable
        | O::Return
        | O::Select
        | O::TypedSelect { .. }
        | O::CatchAll
        | O::TryTable { .. } => vec![],
        _ => numbers(site).unwrap_or_default(),
    }
}

fn signed(bytes: &[u8]) -> i32 {
    BinaryReader::new(bytes, 0).read_var_i32().unwrap_or_default()
}

/// What follows the opcode, as a list of numbers.
fn numbers(site: &Site<'_>) -> Option<Vec<Immediate>> {
    let mut reader = site.behind_opcode()?;
    let mut numbers = Vec::new();
    while !reader.eof() {
        numbers.push(Immediate::I32(reader.read_var_u32().ok()?.cast_signed()));
    }
    Some(numbers)
}

/// Flags, memory and offset of an access, and its lane.
fn accessed(site: &Site<'_>) -> Option<Vec<Immediate>> {
    let (access, mut reader) = site.access_and_rest()?;
    let flags = access.align | if access.memory > 0 { 0x40 } else { 0 };
    let lane = reader.read_u8().ok().map(u32::from);
    let list = [flags, access.memory, access.offset as u32].into_iter().chain(lane);
    Some(list.map(|number| Immediate::I32(number.cast_signed())).collect())
}
