//! The instructions of a function with their context: how blocks nest, the targets of branches, and
//! the borders of basic blocks.
//!
//! A branch to a block lands on its `end`, a branch to a loop on the `loop`. A basic block begins
//! at the function's beginning, at a loop, at an `end` that is the target of a branch, and after
//! every instruction that may branch; it ends before the next one, or where control leaves.

use crate::events::{self, Instruction, Nesting, labels, leaves};
use std::ops::Range;
use wasmparser::{BinaryReader, BinaryReaderError, FunctionBody, Operator};

/// An instruction with its context.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// The offset from the beginning of the function's locals.
    pub pc: u32,
    /// The offset from the beginning of the module.
    pub offset: u32,
    /// Its encoding.
    pub bytes: &'a [u8],
    /// Decoded.
    pub operator: Operator<'a>,
    /// Its row in the table of events, if it has one.
    pub event: Option<&'static Instruction>,
    /// What it does to the nesting of blocks.
    pub nesting: Nesting,
    /// For an instruction that opens a block: its end, or the other arm. For an end, an else or a
    /// catch clause: the instruction that it belongs to. For all others: itself.
    pub partner: usize,
    /// For an instruction that opens or continues a block: its end. For all others: itself.
    pub end: usize,
    /// For an end: whether it is the target of a branch.
    pub targeted: bool,
    /// Whether a basic block begins with it.
    pub leads: bool,
    /// Whether a basic block ends with it.
    pub closes: bool,
    /// How many instructions the basic block has up to it.
    pub count: u32,
}

/// An access to memory.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The alignment as a power of two.
    pub align: u32,
    /// The memory's index.
    pub memory: u32,
    /// The offset that is added to the address.
    pub offset: u64,
}

impl<'a> Site<'a> {
    /// The place of its bytes in the module.
    pub fn place(&self) -> Range<u64> {
        let offset = u64::from(self.offset);
        offset..offset + self.bytes.len() as u64
    }

    /// Whether control may arrive from another place than the previous instruction.
    pub fn is_label(&self) -> bool {
        self.nesting == Nesting::Loop || (self.nesting == Nesting::End && self.targeted)
    }

    /// Whether it ends the preceding part of a `try`, and begins a handler.
    pub fn is_clause(&self) -> bool {
        matches!(self.operator, Operator::Catch { .. } | Operator::CatchAll)
    }

    /// Whether probes before it act after it, where branches land.
    pub fn is_behind(&self) -> bool {
        matches!(self.nesting, Nesting::End | Nesting::Loop)
    }

    /// The bytes that follow its opcode.
    pub fn behind_opcode(&self) -> Option<BinaryReader<'a>> {
        let mut reader = BinaryReader::new(self.bytes, 0);
        if reader.read_u8().ok()? >= 0xfb {
            reader.read_var_u32().ok()?;
        }
        Some(reader)
    }

    /// Its memory access, if it makes one.
    pub fn access(&self) -> Option<Access> {
        self.access_and_rest().map(|(access, _)| access)
    }

    /// Its memory access, and the bytes that follow: a lane.
    pub fn access_and_rest(&self) -> Option<(Access, BinaryReader<'a>)> {
        self.event?.accessed()?;
        let mut reader = self.behind_opcode()?;
        let flags = reader.read_var_u32().ok()?;
        let memory = if flags & 0x40 != 0 { reader.read_var_u32().ok()? } else { 0 };
        let access = Access { align: flags & 0x1f, memory, offset: reader.read_var_u64().ok()? };
        Some((access, reader))
    }
}

/// Returns the sites of a function.
pub fn sites<'a>(
    module: &'a [u8],
    body: &FunctionBody<'a>,
) -> Result<Vec<Site<'a>>, BinaryReaderError> {
    let base = body.range().start;
    let mut sites: Vec<Site<'a>> = Vec::new();
    // The open blocks, and the branch targets: the function itself is `None`.
    let (mut open, mut landed): (Vec<Option<usize>>, Vec<Option<usize>>) = (vec![None], Vec::new());
    let mut reader = body.get_operators_reader()?;
    while !reader.eof() {
        let offset = reader.original_position();
        let operator = reader.read()?;
        let at = sites.len();
        labels(&operator, |depth| {
            landed.extend(open.len().checked_sub(1 + depth as usize).map(|n| open[n]));
        });
        let nesting = Nesting::of(&operator);
        let mut partner = at;
        match nesting {
            Nesting::Block | Nesting::Loop | Nesting::If => open.push(Some(at)),
            Nesting::Else | Nesting::End => {
                let opener = if nesting == Nesting::End {
                    open.pop().flatten()
                } else {
                    open.last().copied().flatten()
                };
                if let Some(opener) = opener {
                    // An `if` without a second arm jumps to the end if its condition is false.
                    if sites[opener].nesting == Nesting::If && sites[opener].partner == opener {
                        landed.push(Some(opener));
                    }
                    (partner, sites[opener].partner) = (opener, at);
                }
            }
            Nesting::Plain => {}
        }
        if let (Operator::Catch { .. } | Operator::CatchAll, Some(opener)) =
            (&operator, open.last().copied().flatten())
        {
            // Control that reaches it jumps to the end.
            landed.push(Some(opener));
            partner = opener;
        }
        let bytes =
            module.get(offset as usize..reader.original_position() as usize).unwrap_or_default();
        let (pc, offset) = ((offset - base) as u32, offset as u32);
        let (event, leads) =
            (events::code_of(bytes).and_then(events::by_code), at == 0 || nesting == Nesting::Loop);
        sites.push(Site {
            pc,
            offset,
            bytes,
            operator,
            event,
            nesting,
            partner,
            end: at,
            targeted: false,
            leads,
            closes: false,
            count: 0,
        });
    }
    let last = sites.len().saturating_sub(1);
    for opener in landed {
        let end = opener.map_or(last, |opener| sites[opener].partner);
        if opener.is_none_or(|opener| sites[opener].nesting != Nesting::Loop) {
            sites[end].targeted = true;
        }
    }
    for i in 0..sites.len() {
        sites[i].end = match sites[i].nesting {
            // If there are two arms, the first has the other as its partner, and that has the end
            // of both.
            Nesting::Block | Nesting::Loop | Nesting::If => sites[i].partner,
            Nesting::Else => sites[sites[i].partner].partner,
            _ => i,
        };
    }
    blocks(&mut sites);
    Ok(sites)
}

/// The places at which control falls out of the block that an instruction opens: before its end;
/// out of the first arm of an `if` before the second; out of a `try` also before each of its
/// clauses.
pub fn closings(sites: &[Site<'_>], opener: usize) -> Vec<usize> {
    let end = sites[opener].end;
    let own = |k: &usize| sites[*k].partner == opener;
    let arm = |k: &usize| own(k) && sites[*k].nesting == Nesting::Else;
    if let Some(other) = (opener + 1..end).find(arm) {
        return vec![other];
    }
    let clauses = (opener + 1..end).filter(|k| own(k) && sites[*k].is_clause());
    clauses.chain([end]).collect()
}

fn blocks(sites: &mut [Site<'_>]) {
    let mut count = 0;
    for i in 0..sites.len() {
        let follows = i > 0 && leaves(&sites[i - 1].operator);
        sites[i].leads |= follows || (sites[i].nesting == Nesting::End && sites[i].targeted);
        count = if sites[i].leads { 1 } else { count + 1 };
        sites[i].count = count;
    }
    for i in 0..sites.len() {
        sites[i].closes =
            leaves(&sites[i].operator) || sites.get(i + 1).is_none_or(|next| next.leads);
    }
}
