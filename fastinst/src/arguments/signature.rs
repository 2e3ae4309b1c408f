//! Signatures: the arguments that a function has in registers, and its return value, by debug
//! information (DWARF 5).
//!
//! Integers, addresses and enumerations take the argument registers in their order; floating-point
//! numbers take none of these. The registers of a structure depend on its contents and on the
//! language: arguments after a structure that is passed by value are unknown. Compilers make copies
//! of functions with other arguments than in the source, and mark them by name or by attribute.

use super::{Form, Place, REGISTERS};
use crate::discovery::{Image, Module};
use crate::symbols::{Symbols, with_images};
use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian, SectionId, Unit,
    UnitOffset,
};
use wordpatch::CodeAddr;

type Bytes<'b> = EndianSlice<'b, LittleEndian>;
type Entry<'b> = DebuggingInformationEntry<Bytes<'b>>;

/// How values of a function are to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signature {
    /// Arguments, by the number of their register, from one on.
    pub(crate) arguments: Vec<(u8, Form)>,
    /// The return value, if it is an integer or an address.
    pub(crate) returned: Option<Form>,
}

impl Signature {
    /// How a value is to be read, if it is known.
    pub(crate) fn form_of(&self, place: Place) -> Option<Form> {
        match place {
            Place::Argument(wanted) => {
                self.arguments.iter().find(|(number, _)| *number == wanted).map(|(_, form)| *form)
            }
            Place::Return => self.returned,
        }
    }
}

/// How deeply types may be nested.
const DEPTH: usize = 32;

/// The signature of the function that begins at an address of a module; `None` if debug information
/// does not describe it.
pub(crate) fn signature(module: &Module, address: CodeAddr) -> Option<Signature> {
    let name = Symbols::look_up(module, address).ok().flatten().map(|symbol| symbol.name);
    let is_changed =
        |name: &String| [".isra.", ".constprop.", ".part."].iter().any(|mark| name.contains(mark));
    if name.as_ref().is_some_and(is_changed) {
        return None;
    }
    let at = address.get().wrapping_sub(module.bias) as u64;
    let mut found = None;
    with_images(module, |image| {
        if found.is_none() {
            found = in_image(image, at).ok().flatten();
        }
    })
    .ok()?;
    found
}

fn in_image(image: &Image<'_>, at: u64) -> gimli::Result<Option<Signature>> {
    let section = |id: SectionId| {
        let bytes = image.section(id.name()).unwrap_or_default();
        Ok::<_, gimli::Error>(EndianSlice::new(bytes, LittleEndian))
    };
    let dwarf = Dwarf::load(section)?;
    // Not all compilers write a table of units by address.
    let mut tables = dwarf.debug_aranges.headers();
    while let Some(table) = tables.next()? {
        let mut ranges = table.entries();
        while let Some(range) = ranges.next()? {
            if (range.address()..range.address().saturating_add(range.length())).contains(&at) {
                let header = dwarf.debug_info.header_from_offset(table.debug_info_offset())?;
                return Reader { dwarf: &dwarf, unit: dwarf.unit(header)? }.function(at);
            }
        }
    }
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let mut ranges = dwarf.unit_ranges(&unit)?;
        while let Some(range) = ranges.next()? {
            if (range.begin..range.end).contains(&at) {
                return Reader { dwarf: &dwarf, unit }.function(at);
            }
        }
    }
    Ok(None)
}

/// One compilation unit.
struct Reader<'d, 'b> {
    dwarf: &'d Dwarf<Bytes<'b>>,
    unit: Unit<Bytes<'b>>,
}

/// The class of a parameter in the calling convention.
enum Class {
    /// It has a register for integers and addresses.
    Word(Form),
    /// It has none.
    Elsewhere,
    /// It has none, or one, or two.
    Unknown,
}

impl<'b> Reader<'_, 'b> {
    fn function(&self, at: u64) -> gimli::Result<Option<Signature>> {
        let mut entries = self.unit.entries();
        while let Some(entry) = entries.next_dfs()? {
            if entry.tag() == gimli::DW_TAG_subprogram && self.begins(entry, at)? {
                let entry = entry.clone();
                return self.signature(&entry);
            }
        }
        Ok(None)
    }

    fn begins(&self, entry: &Entry<'b>, at: u64) -> gimli::Result<bool> {
        let mut ranges = self.dwarf.die_ranges(&self.unit, entry)?;
        while let Some(range) = ranges.next()? {
            if range.begin == at {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn signature(&self, made: &Entry<'b>) -> gimli::Result<Option<Signature>> {
        let calls = made.attr_value(gimli::DW_AT_calling_convention);
        if matches!(calls, Some(AttributeValue::CallingConvention(gimli::DW_CC_nocall))) {
            return Ok(None);
        }
        // A body made from a function that is inlined in other places has only the parameters that
        // it uses.
        let source = match self.at(made, gimli::DW_AT_abstract_origin)? {
            Some(origin) => origin,
            None if made.attr_value(gimli::DW_AT_abstract_origin).is_some() => return Ok(None),
            None => made.clone(),
        };
        let declared = match self.at(&source, gimli::DW_AT_specification)? {
            Some(declared) => declared,
            None => source.clone(),
        };
        let returns = match source.attr_value(gimli::DW_AT_type) {
            Some(_) => self.type_of(&source)?,
            None => self.type_of(&declared)?,
        };
        let mut signature = Signature::default();
        let mut register = match &returns {
            Some(returned) => match self.class(returned)? {
                Class::Word(form) => {
                    signature.returned = Some(form);
                    1
                }
                Class::Elsewhere if self.is_aggregate(returned) => 2,
                Class::Elsewhere => 1,
                Class::Unknown if self.is_c() && size(returned).is_some_and(|size| size <= 16) => 1,
                Class::Unknown => return Ok(Some(signature)),
            },
            None => 1,
        };
        let mut tree = self.unit.entries_tree(Some(source.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            if child.entry().tag() != gimli::DW_TAG_formal_parameter {
                continue;
            }
            let parameter = child.entry().clone();
            let class = match self.type_of(&parameter)? {
                Some(of) => self.class(&of)?,
                None => Class::Unknown,
            };
            match class {
                Class::Word(form) if register <= REGISTERS => {
                    signature.arguments.push((register, form));
                    register += 1;
                }
                Class::Elsewhere => {}
                Class::Word(_) | Class::Unknown => break,
            }
        }
        Ok(Some(signature))
    }

    /// The entry that an attribute leads to, in the same unit.
    fn at(&self, entry: &Entry<'b>, name: gimli::DwAt) -> gimli::Result<Option<Entry<'b>>> {
        match entry.attr_value(name) {
            Some(AttributeValue::UnitRef(offset)) => self.entry(offset).map(Some),
            _ => Ok(None),
        }
    }

    fn entry(&self, offset: UnitOffset) -> gimli::Result<Entry<'b>> {
        self.unit.entry(offset)
    }

    /// The type of a value, without names and qualifiers; `None` if it is `void`.
    fn type_of(&self, entry: &Entry<'b>) -> gimli::Result<Option<Entry<'b>>> {
        let mut of = self.at(entry, gimli::DW_AT_type)?;
        for _ in 0..DEPTH {
            let Some(found) = &of else { break };
            match found.tag() {
                gimli::DW_TAG_typedef
                | gimli::DW_TAG_const_type
                | gimli::DW_TAG_volatile_type
                | gimli::DW_TAG_restrict_type
                | gimli::DW_TAG_atomic_type => of = self.at(found, gimli::DW_AT_type)?,
                _ => break,
            }
        }
        Ok(of)
    }

    fn class(&self, of: &Entry<'b>) -> gimli::Result<Class> {
        let bits = size(of).filter(|size| matches!(size, 1 | 2 | 4 | 8)).map(|size| 8 * size as u8);
        Ok(match (of.tag(), bits) {
            (gimli::DW_TAG_base_type, bits) => match (encoding(of), bits) {
                (Some(gimli::DW_ATE_boolean), Some(8)) => Class::Word(Form::Truth),
                (Some(gimli::DW_ATE_signed_char), Some(8)) => Class::Word(Form::Character),
                (Some(gimli::DW_ATE_signed), Some(bits)) => Class::Word(Form::Signed(bits)),
                (
                    Some(
                        gimli::DW_ATE_unsigned
                        | gimli::DW_ATE_unsigned_char
                        | gimli::DW_ATE_UTF
                        | gimli::DW_ATE_boolean,
                    ),
                    Some(bits),
                ) => Class::Word(Form::Unsigned(bits)),
                (Some(gimli::DW_ATE_float | gimli::DW_ATE_complex_float), _) => Class::Elsewhere,
                _ => Class::Unknown,
            },
            (gimli::DW_TAG_pointer_type, _) => {
                let is_text = match self.type_of(of)? {
                    Some(to) => {
                        to.tag() == gimli::DW_TAG_base_type
                            && encoding(&to) == Some(gimli::DW_ATE_signed_char)
                    }
                    None => false,
                };
                Class::Word(if is_text { Form::Text } else { Form::Hexadecimal(64) })
            }
            (
                gimli::DW_TAG_reference_type
                | gimli::DW_TAG_rvalue_reference_type
                | gimli::DW_TAG_unspecified_type,
                _,
            ) => Class::Word(Form::Hexadecimal(64)),
            (gimli::DW_TAG_enumeration_type, Some(bits)) => {
                Class::Word(Form::Named(bits, self.names(of)?))
            }
            _ if self.is_aggregate(of) => match of.attr_value(gimli::DW_AT_calling_convention) {
                Some(AttributeValue::CallingConvention(gimli::DW_CC_pass_by_reference)) => {
                    Class::Word(Form::Hexadecimal(64))
                }
                Some(AttributeValue::CallingConvention(gimli::DW_CC_pass_by_value))
                    if size(of).is_some_and(|size| size > 16) =>
                {
                    Class::Elsewhere
                }
                _ if self.is_c() && size(of).is_some_and(|size| size > 16) => Class::Elsewhere,
                _ => Class::Unknown,
            },
            _ => Class::Unknown,
        })
    }

    fn is_aggregate(&self, of: &Entry<'b>) -> bool {
        matches!(
            of.tag(),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_union_type | gimli::DW_TAG_class_type
        )
    }

    /// Names of the values of an enumeration, kept for as long as values are printed.
    fn names(&self, of: &Entry<'b>) -> gimli::Result<&'static [(u64, String)]> {
        const MOST: usize = 256;
        let mut names = Vec::new();
        let mut tree = self.unit.entries_tree(Some(of.offset()))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()?.filter(|_| names.len() < MOST) {
            let entry = child.entry();
            let value = entry.attr_value(gimli::DW_AT_const_value);
            let value = value.and_then(|value| {
                value.sdata_value().map(|value| value as u64).or_else(|| value.udata_value())
            });
            if let (Some(value), Some(name)) = (value, entry.attr_value(gimli::DW_AT_name)) {
                let name = self.dwarf.attr_string(&self.unit, name)?;
                names.push((value, name.to_string_lossy().into_owned()));
            }
        }
        Ok(Vec::leak(names))
    }

    /// Whether structures are passed by C's calling convention.
    fn is_c(&self) -> bool {
        let language = || {
            let root = self.entry(self.unit.header.root_offset()).ok()?;
            match root.attr_value(gimli::DW_AT_language)? {
                AttributeValue::Language(language) => Some(language),
                _ => None,
            }
        };
        matches!(
            language(),
            Some(
                gimli::DW_LANG_C
                    | gimli::DW_LANG_C89
                    | gimli::DW_LANG_C99
                    | gimli::DW_LANG_C11
                    | gimli::DW_LANG_C17
            )
        )
    }
}

/// How many bytes a value of a type has.
fn size(of: &Entry<'_>) -> Option<u64> {
    of.attr_value(gimli::DW_AT_byte_size)?.udata_value()
}

fn encoding(of: &Entry<'_>) -> Option<gimli::DwAte> {
    match of.attr_value(gimli::DW_AT_encoding)? {
        AttributeValue::Encoding(encoding) => Some(encoding),
        _ => None,
    }
}
