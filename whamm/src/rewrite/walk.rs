//! One function of the program, instruction by instruction.
//!
//! The first reading notes where blocks begin and end, which of them are branched to, and which
//! instructions lead and close basic blocks: a block begins at the function's beginning, at a loop,
//! at an end that is branched to, and after whatever may branch; it ends before the next one, or
//! where control leaves.

pub(crate) use crate::events::Nesting;
use crate::events::{self, Instruction, labels, leaves};
use std::ops::Range;
use wasmparser::{FunctionBody, Operator};

/// An instruction where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Op<'a> {
    /// From the beginning of the function's locals.
    pub(crate) pc: u32,
    /// Where in the file.
    pub(crate) offset: u64,
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// Decoded.
    pub(crate) operator: Operator<'a>,
    /// Its row in the table, if it has one.
    pub(crate) event: Option<&'static Instruction>,
    /// What it does to nesting.
    pub(crate) nesting: Nesting,
    /// For what opens a block: its end. For an end or an else: what it belongs to.
    pub(crate) partner: usize,
    /// For an end: whether control comes there by a branch.
    pub(crate) targeted: bool,
    /// A basic block begins with it.
    pub(crate) leads: bool,
    /// A basic block ends with it.
    pub(crate) closes: bool,
    /// How many instructions the basic block has that it ends.
    pub(crate) count: u32,
}

impl Op<'_> {
    /// Where its bytes are in the program.
    pub(crate) fn place(&self) -> Range<u64> {
        self.offset..self.offset + self.bytes.len() as u64
    }

    /// Whether control may come here from elsewhere than the instruction before.
    pub(crate) fn is_label(&self) -> bool {
        self.nesting == Nesting::Loop || (self.nesting == Nesting::End && self.targeted)
    }
}

/// Whether control may not come back, so that what is counted before it must not include what is
/// behind it.
pub(crate) fn interrupts(op: &Operator<'_>) -> bool {
    use Operator as O;
    leaves(op)
        || matches!(
            op,
            O::Call { .. } | O::CallIndirect { .. } | O::CallRef { .. } | O::TryTable { .. }
        )
}

/// Whether an instruction speaks of references to certain types.
pub(crate) fn is_typed(op: &Operator<'_>) -> bool {
    use Operator as O;
    match op {
        O::Block { blockty } | O::Loop { blockty } | O::If { blockty } => {
            matches!(blockty, wasmparser::BlockType::Type(ty) if crate::app::is_typed(ty))
        }
        O::TryTable { try_table } => {
            matches!(try_table.ty, wasmparser::BlockType::Type(ty) if crate::app::is_typed(&ty))
        }
        O::TypedSelect { ty } => crate::app::is_typed(ty),
        O::CallRef { .. }
        | O::ReturnCallRef { .. }
        | O::RefAsNonNull
        | O::BrOnNull { .. }
        | O::BrOnNonNull { .. }
        | O::BrOnCast { .. }
        | O::BrOnCastFail { .. }
        | O::RefCastNonNull { .. }
        | O::RefCastNullable { .. }
        | O::RefTestNonNull { .. }
        | O::RefTestNullable { .. } => true,
        _ => false,
    }
}

/// The instructions of a function.
pub(crate) fn walk<'a>(
    file: &'a [u8],
    body: &FunctionBody<'a>,
) -> Result<Vec<Op<'a>>, wasmparser::Error> {
    let base = body.range().start;
    let mut ops: Vec<Op<'a>> = Vec::new();
    let mut open: Vec<Option<usize>> = vec![None];
    // Labels of blocks that are branched to, by the index of what opens them; the function's own is
    // last.
    let mut targeted = Vec::new();
    let mut function_targeted = false;
    let mut reader = body.get_operators_reader()?;
    while !reader.eof() {
        let offset = reader.original_position();
        let operator = reader.read()?;
        let end = reader.original_position();
        let at = ops.len();
        let slice = |a: u64, b: u64| {
            usize::try_from(a)
                .ok()
                .zip(usize::try_from(b).ok())
                .and_then(|(a, b)| file.get(a..b))
                .unwrap_or(&[])
        };
        let bytes = slice(offset, end);
        labels(&operator, |label| {
            match open.len().checked_sub(1 + label as usize).and_then(|n| open[n]) {
                Some(opener) => targeted.push(opener),
                None => function_targeted = true,
            }
        });
        let nesting = Nesting::of(&operator);
        let mut op = Op {
            pc: u32::try_from(offset - base).unwrap_or(u32::MAX),
            offset,
            bytes,
            event: events::code_of(bytes).and_then(events::by_code),
            nesting,
            partner: at,
            targeted: false,
            leads: at == 0 || nesting == Nesting::Loop,
            closes: false,
            count: 0,
            operator,
        };
        match nesting {
            Nesting::Block | Nesting::Loop | Nesting::If => open.push(Some(at)),
            Nesting::Else => {
                if let Some(&Some(opener)) = open.last() {
                    op.partner = opener;
                    targeted.push(opener);
                    ops[opener].partner = at;
                }
            }
            Nesting::End => {
                let opener = open.pop().flatten();
                if let Some(opener) = opener {
                    op.partner = opener;
                    // A choice without a second arm jumps to its end.
                    if ops[opener].nesting == Nesting::If && ops[opener].partner == opener {
                        targeted.push(opener);
                    }
                    ops[opener].partner = at;
                }
            }
            Nesting::Plain => {}
        }
        ops.push(op);
    }
    for opener in targeted {
        let end = ops[opener].partner;
        if ops[opener].nesting != Nesting::Loop {
            ops[end].targeted = true;
        }
    }
    if let Some(last) = ops.last_mut() {
        last.targeted = function_targeted;
    }
    blocks(&mut ops);
    Ok(ops)
}

fn blocks(ops: &mut [Op<'_>]) {
    let mut count = 0;
    for i in 0..ops.len() {
        ops[i].leads |= (ops[i].nesting == Nesting::End && ops[i].targeted)
            || (i > 0 && leaves(&ops[i - 1].operator));
        count = if ops[i].leads { 1 } else { count + 1 };
        ops[i].count = count;
    }
    for i in 0..ops.len() {
        ops[i].closes = leaves(&ops[i].operator) || ops.get(i + 1).is_none_or(|next| next.leads);
    }
}
