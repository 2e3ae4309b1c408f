//! What is known of a site when a monitor is matched: what predicates and constant arguments ask
//! for.

use super::guest::{Known, Number};
use super::name::Asked;
use super::site::{self, Immediate, Site};
use wasm_aot_engine::ValType;
use wasm_aot_engine::instrument::module::{self, ModuleInfo, Space};
use wasmparser::Operator;

/// What is known of the place that is looked at.
pub(super) struct SitePlace<'s, 'a> {
    pub(super) index: usize,
    pub(super) site: &'s Site<'a>,
    pub(super) last: bool,
    pub(super) at_entry: bool,
    /// Types of operands and results, from the top; unknown ones where code is not reached.
    pub(super) operands: Vec<Option<ValType>>,
    pub(super) results: Vec<Option<ValType>>,
}

/// The source lines of a program.
pub(super) type Lines<'a> = addr2line::Context<gimli::EndianSlice<'a, gimli::LittleEndian>>;

/// The source of line numbers.
pub(super) trait SourceLines {
    /// File and line of what is so far from the start of the code section.
    fn at(&self, offset: u64) -> Option<(String, u32)>;
}

impl SourceLines for Lines<'_> {
    fn at(&self, offset: u64) -> Option<(String, u32)> {
        let location = self.find_location(offset).ok()??;
        Some((location.file?.to_owned(), location.line?))
    }
}

/// What is known of a place.
pub(super) struct SiteFacts<'p, 's, 'a> {
    pub(super) info: &'p ModuleInfo,
    pub(super) fid: u32,
    pub(super) place: &'p SitePlace<'s, 'a>,
    pub(super) id: u32,
    pub(super) foreign: bool,
    pub(super) lines: Option<&'p dyn SourceLines>,
}

impl SiteFacts<'_, '_, '_> {
    pub(super) fn known(&self, asked: &Asked, ty: ValType) -> Option<Known> {
        let (place, site) = (self.place, self.place.site);
        let number = |value: u32| Some(Known::Value(Number::I32(value.cast_signed())));
        let text = |text: &str| Some(Known::Text(text.to_owned()));
        let targets = || match &site.operator {
            Operator::BrTable { targets } => Some(targets),
            _ => None,
        };
        match asked {
            Asked::Pc => number(if place.at_entry { 0 } else { site.pc }),
            Asked::Fid => number(self.fid),
            Asked::ProbeId => number(self.id),
            Asked::OpIdx => number(place.index as u32),
            Asked::AtFuncEnd => number(u32::from(place.last)),
            Asked::InstrCount => number(site.count),
            Asked::NumTargets => number(targets()?.len()),
            Asked::DefaultTarget => number(targets()?.default()),
            Asked::Targets => {
                let list: Vec<String> =
                    targets()?.targets().flatten().map(|depth| depth.to_string()).collect();
                text(&list.join(","))
            }
            Asked::Offset => {
                Some(Known::Value(Number::I64(self.place.site.access()?.offset.cast_signed())))
            }
            Asked::Memory => number(self.place.site.access()?.memory),
            // The existing compiler's scripts mean the exponent.
            Asked::Align => {
                let exponent = self.place.site.access()?.align;
                number(if self.foreign { exponent } else { 1 << exponent })
            }
            // The first one, imported or not, as in a rewritten program.
            Asked::AppMemory => number(0),
            Asked::Fname => text(self.info.function_name(self.fid).unwrap_or_default()),
            Asked::Opname => text(if place.at_entry { return None } else { site.event?.opname() }),
            Asked::TargetFnName => match self.import(self.callee()?) {
                Some((_, name)) => text(name),
                None => text(self.info.function_name(self.callee()?).unwrap_or_default()),
            },
            Asked::TargetFnType => {
                text(if self.import(self.callee()?).is_some() { "import" } else { "local" })
            }
            Asked::TargetImpModule => {
                text(self.import(self.callee()?).map_or("", |(module, _)| module))
            }
            Asked::File => text(&self.source().map(|(file, _)| file).unwrap_or_default()),
            Asked::Line => number(self.source().map_or(0, |(_, line)| line)),
            Asked::Imm(n) => self.immediate(*n).filter(|value| value.ty() == ty).map(Known::Value),
            _ => None,
        }
    }

    /// File and line of the source, where the program has debug information. That counts from the
    /// start of the code section.
    fn source(&self) -> Option<(String, u32)> {
        let offset = u64::from(self.place.site.offset.checked_sub(self.info.code_start)?);
        self.lines?.at(offset)
    }

    fn callee(&self) -> Option<u32> {
        match self.place.site.operator {
            Operator::Call { function_index } | Operator::ReturnCall { function_index } => {
                Some(function_index)
            }
            _ => None,
        }
    }

    fn import(&self, function: u32) -> Option<(&str, &str)> {
        let is = |import: &&module::Import| import.space == Space::Func && import.index == function;
        self.info
            .imports
            .iter()
            .find(is)
            .map(|import| (import.module.as_str(), import.name.as_str()))
    }

    /// An immediate by its number. The existing compiler does not count the number of a table's
    /// labels.
    fn immediate(&self, n: u32) -> Option<Number> {
        let is_table = matches!(self.place.site.operator, Operator::BrTable { .. });
        let n = n as usize + usize::from(is_table && self.foreign);
        Some(match *site::immediates(self.place.site).get(n)? {
            Immediate::I32(value) => Number::I32(value),
            Immediate::I64(value) => Number::I64(value),
            Immediate::F32(bits) => Number::F32(bits),
            Immediate::F64(bits) => Number::F64(bits),
            Immediate::V128(bits) => Number::V128(bits.cast_unsigned()),
        })
    }
}
