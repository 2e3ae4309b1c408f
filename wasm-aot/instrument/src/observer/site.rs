//! Places in a program where something happens, as modules of this family see them.
//!
//! A branch to a block lands on its `end`, a branch to a loop on the `loop`: what is to happen
//! before these happens behind them. A basic block begins at the function's beginning, at a loop,
//! at an `end` that is branched to, and behind whatever may branch; it ends before the next one, or
//! where control leaves.

pub(crate) use wasm_aot_body::events::Nesting;
use wasm_aot_body::events::{self, Instruction, labels, leaves};
use wasmparser::{BinaryReaderError, BlockType, FunctionBody, Operator};

/// An instruction where it stands.
#[derive(Debug)]
pub(crate) struct Site<'a> {
    /// From the beginning of the function's locals.
    pub(crate) pc: u32,
    /// From the beginning of the module.
    pub(crate) offset: u32,
    /// Its encoding.
    pub(crate) bytes: &'a [u8],
    pub(crate) operator: Operator<'a>,
    /// Its row in the table of events, if it has one.
    pub(crate) event: Option<&'static Instruction>,
    pub(crate) nesting: Nesting,
    /// For what opens a block: its end. For an end or an else: what it belongs to. For all others:
    /// itself.
    pub(crate) partner: usize,
    /// For what opens a block, or goes on with one: where it ends. For all others: itself.
    pub(crate) end: usize,
    /// For an end: whether control comes there by a branch.
    pub(crate) targeted: bool,
    /// A basic block begins with it.
    pub(crate) leads: bool,
    /// A basic block ends with it, which has so many instructions.
    pub(crate) closes: bool,
    pub(crate) count: u32,
}

impl Site<'_> {
    /// Whether what is before it happens behind it, where branches land.
    pub(crate) fn is_behind(&self) -> bool {
        matches!(self.nesting, Nesting::End | Nesting::Loop)
    }

    /// Whether the function ends with it.
    pub(crate) fn ends_function(&self) -> bool {
        use Operator as O;
        matches!(
            self.operator,
            O::Return
                | O::ReturnCall { .. }
                | O::ReturnCallIndirect { .. }
                | O::ReturnCallRef { .. }
        )
    }

    /// Whether a probe may be called on the way to where it branches.
    pub(crate) fn is_branch(&self) -> bool {
        matches!(
            self.operator,
            Operator::Br { .. } | Operator::BrIf { .. } | Operator::BrTable { .. }
        )
    }
}

/// The sites of a function.
pub(crate) fn sites<'a>(
    module: &'a [u8],
    body: &FunctionBody<'a>,
) -> Result<Vec<Site<'a>>, BinaryReaderError> {
    let base = body.range().start;
    let mut sites: Vec<Site<'a>> = Vec::new();
    // What has been opened, and what is branched to: the function itself is none.
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
                    // Who has no second arm, or comes to it, jumps to the end.
                    if sites[opener].nesting == Nesting::If && sites[opener].partner == opener {
                        landed.push(Some(opener));
                    }
                    (partner, sites[opener].partner) = (opener, at);
                }
            }
            Nesting::Plain => {}
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
    let last = sites.len() - 1;
    for opener in landed {
        let end = opener.map_or(last, |opener| sites[opener].partner);
        if opener.is_none_or(|opener| sites[opener].nesting != Nesting::Loop) {
            sites[end].targeted = true;
        }
    }
    for i in 0..sites.len() {
        sites[i].end = match sites[i].nesting {
            // Whoever has two arms knows where both end.
            Nesting::Block | Nesting::Loop | Nesting::If => sites[i].partner,
            Nesting::Else => sites[sites[i].partner].partner,
            _ => i,
        };
    }
    blocks(&mut sites);
    Ok(sites)
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

/// Whether something may stand in place of instructions of that name: not of those that say where
/// control goes on.
pub(crate) fn is_replaced(name: &str) -> bool {
    const CONTROL: [&str; 14] = [
        "block",
        "loop",
        "if",
        "else",
        "end",
        "try_table",
        "unreachable",
        "throw",
        "throw_ref",
        "try",
        "catch",
        "catch_all",
        "rethrow",
        "delegate",
    ];
    !(name == "br"
        || ["br_", "return"].iter().any(|kind| name.starts_with(kind))
        || CONTROL.contains(&name))
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
            accessed(bytes).unwrap_or_default()
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
        _ => numbers(bytes).unwrap_or_default(),
    }
}

fn signed(bytes: &[u8]) -> i32 {
    wasmparser::BinaryReader::new(bytes, 0).read_var_i32().unwrap_or_default()
}

/// What follows the opcode, as a list of numbers.
fn numbers(bytes: &[u8]) -> Option<Vec<Immediate>> {
    let mut reader = behind_opcode(bytes)?;
    let mut numbers = Vec::new();
    while !reader.eof() {
        numbers.push(Immediate::I32(reader.read_var_u32().ok()?.cast_signed()));
    }
    Some(numbers)
}

fn behind_opcode(bytes: &[u8]) -> Option<wasmparser::BinaryReader<'_>> {
    let mut reader = wasmparser::BinaryReader::new(bytes, 0);
    if reader.read_u8().ok()? >= 0xfb {
        reader.read_var_u32().ok()?;
    }
    Some(reader)
}

/// Flags, memory and offset of an access, and its lane.
fn accessed(bytes: &[u8]) -> Option<Vec<Immediate>> {
    let (access, mut reader) = access_and_rest(bytes)?;
    let flags = access.align | if access.memory > 0 { 0x40 } else { 0 };
    let lane = reader.read_u8().ok().map(u32::from);
    let list = [flags, access.memory, access.offset as u32].into_iter().chain(lane);
    Some(list.map(|number| Immediate::I32(number.cast_signed())).collect())
}

/// An access to memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    /// As a power of two.
    pub(crate) align: u32,
    pub(crate) memory: u32,
    pub(crate) offset: u64,
}

/// The access that an instruction's bytes describe.
pub(crate) fn access(bytes: &[u8]) -> Option<Access> {
    access_and_rest(bytes).map(|(access, _)| access)
}

fn access_and_rest(bytes: &[u8]) -> Option<(Access, wasmparser::BinaryReader<'_>)> {
    let mut reader = behind_opcode(bytes)?;
    let flags = reader.read_var_u32().ok()?;
    let memory = if flags & 0x40 != 0 { reader.read_var_u32().ok()? } else { 0 };
    let access = Access { align: flags & 0x1f, memory, offset: reader.read_var_u64().ok()? };
    Some((access, reader))
}
