//! Events as bytes. `docs/trace-format.md` has the encoding as a table.

use crate::cursor::{Cursor, Wrong, put_counted, put_number};
use crate::event::{Change, Door, End, Event, Frame};
use crate::value::{Signature, Value};
use wasmparser::{FuncType, ValType};

/// Appends an event to bytes.
pub(crate) fn put(to: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Enter { function, door, args } => {
            to.push(0x01);
            put_number(to, u64::from(*function));
            match door {
                Door::Export(name) => {
                    to.push(0);
                    put_counted(to, name.as_bytes());
                }
                Door::Start => to.push(1),
                Door::Reference => to.push(2),
            }
            put_values(to, args);
        }
        Event::Leave(end) => {
            to.push(0x02);
            put_end(to, end);
        }
        Event::Call { function, args } => {
            to.push(0x03);
            put_number(to, u64::from(*function));
            put_values(to, args);
        }
        Event::Return(end) => {
            to.push(0x04);
            put_end(to, end);
        }
        Event::Function(signature) => {
            to.push(0x05);
            put_types(to, signature.ty().params());
            put_types(to, signature.ty().results());
        }
        Event::Host(change) => put_change(to, 0x10, change),
        Event::Found(change) => put_change(to, 0x20, change),
        Event::Seen(change) => put_change(to, 0x30, change),
        Event::Own(change) => put_change(to, 0x40, change),
        Event::Begin { function } => {
            to.push(0x50);
            put_number(to, u64::from(*function));
        }
        Event::Done => to.push(0x51),
    }
}

fn put_change(to: &mut Vec<u8>, kind: u8, change: &Change) {
    match change {
        Change::Write { memory, address, bytes } => {
            to.push(kind);
            put_number(to, u64::from(*memory));
            put_number(to, *address);
            put_counted(to, bytes);
        }
        Change::Grow { memory, pages } => {
            to.push(kind | 1);
            put_number(to, u64::from(*memory));
            put_number(to, *pages);
        }
        Change::Global { global, value } => {
            to.push(kind | 2);
            put_number(to, u64::from(*global));
            put_value(to, value);
        }
        Change::Element { table, index, value } => {
            to.push(kind | 3);
            put_number(to, u64::from(*table));
            put_number(to, *index);
            put_value(to, value);
        }
        Change::GrowTable { table, count, value } => {
            to.push(kind | 4);
            put_number(to, u64::from(*table));
            put_number(to, *count);
            put_value(to, value);
        }
    }
}

fn put_end(to: &mut Vec<u8>, end: &End) {
    match end {
        End::Values(values) => {
            to.push(0);
            put_values(to, values);
        }
        End::Exit { code, frames } => {
            to.push(1);
            to.extend_from_slice(&code.to_le_bytes());
            put_number(to, frames.len() as u64);
            for frame in frames {
                put_number(to, u64::from(frame.function));
                put_number(to, u64::from(frame.offset));
            }
        }
        End::Trap(why) => {
            to.push(2);
            put_counted(to, why.as_bytes());
        }
        End::Exception { tag, values } => {
            to.push(3);
            put_number(to, u64::from(*tag));
            put_values(to, values);
        }
    }
}

fn put_types(to: &mut Vec<u8>, types: &[ValType]) {
    put_number(to, types.len() as u64);
    to.extend(types.iter().map(|ty| Signature::spelled(*ty).1));
}

fn put_values(to: &mut Vec<u8>, values: &[Value]) {
    put_number(to, values.len() as u64);
    values.iter().for_each(|value| put_value(to, value));
}

fn put_value(to: &mut Vec<u8>, value: &Value) {
    let mut reference = |kind: u8, number: &Option<u32>| {
        to.push(kind);
        put_number(to, number.map_or(0, |number| u64::from(number) + 1));
    };
    match value {
        Value::Func(index) => reference(0x70, index),
        Value::Extern(number) => reference(0x6f, number),
        Value::Object => to.push(0x6e),
        Value::I32(bits) => {
            to.push(0x7f);
            to.extend_from_slice(&bits.to_le_bytes());
        }
        Value::I64(bits) => {
            to.push(0x7e);
            to.extend_from_slice(&bits.to_le_bytes());
        }
        Value::F32(bits) => {
            to.push(0x7d);
            to.extend_from_slice(&bits.to_le_bytes());
        }
        Value::F64(bits) => {
            to.push(0x7c);
            to.extend_from_slice(&bits.to_le_bytes());
        }
        Value::V128(bits) => {
            to.push(0x7b);
            to.extend_from_slice(&bits.to_le_bytes());
        }
    }
}

/// Reads the next event.
pub(crate) fn take(from: &mut Cursor<'_>) -> Result<Event, Wrong> {
    Ok(match from.byte()? {
        0x01 => {
            let function = from.index()?;
            let door = match from.byte()? {
                0 => Door::Export(from.text()?),
                1 => Door::Start,
                2 => Door::Reference,
                other => return Err(format!("{other:#04x} is no way into a program")),
            };
            Event::Enter { function, door, args: take_values(from)? }
        }
        0x02 => Event::Leave(take_end(from)?),
        0x03 => Event::Call { function: from.index()?, args: take_values(from)? },
        0x04 => Event::Return(take_end(from)?),
        0x05 => {
            let ty = FuncType::new(take_types(from)?, take_types(from)?);
            Event::Function(Signature::new(ty).expect("types were read as such"))
        }
        kind @ 0x10..0x20 => Event::Host(take_change(from, kind & 0xf)?),
        kind @ 0x20..0x30 => Event::Found(take_change(from, kind & 0xf)?),
        kind @ 0x30..0x40 => Event::Seen(take_change(from, kind & 0xf)?),
        kind @ 0x40..0x50 => Event::Own(take_change(from, kind & 0xf)?),
        0x50 => Event::Begin { function: from.index()? },
        0x51 => Event::Done,
        other => return Err(format!("{other:#04x} is no event")),
    })
}

fn take_change(from: &mut Cursor<'_>, kind: u8) -> Result<Change, Wrong> {
    Ok(match kind {
        0 => Change::Write {
            memory: from.index()?,
            address: from.number()?,
            bytes: from.counted()?.to_vec(),
        },
        1 => Change::Grow { memory: from.index()?, pages: from.number()? },
        2 => Change::Global { global: from.index()?, value: take_value(from)? },
        3 => Change::Element {
            table: from.index()?,
            index: from.number()?,
            value: take_value(from)?,
        },
        4 => Change::GrowTable {
            table: from.index()?,
            count: from.number()?,
            value: take_value(from)?,
        },
        other => return Err(format!("{other:#03x} is no change")),
    })
}

fn take_end(from: &mut Cursor<'_>) -> Result<End, Wrong> {
    Ok(match from.byte()? {
        0 => End::Values(take_values(from)?),
        1 => {
            let code = i32::from_le_bytes(from.array()?);
            let count = from.number()?;
            let mut frames = Vec::new();
            for _ in 0..count {
                frames.push(Frame { function: from.index()?, offset: from.index()? });
            }
            End::Exit { code, frames }
        }
        2 => End::Trap(from.text()?),
        3 => End::Exception { tag: from.index()?, values: take_values(from)? },
        other => return Err(format!("{other:#04x} is no end of a call")),
    })
}

fn take_types(from: &mut Cursor<'_>) -> Result<Vec<ValType>, Wrong> {
    let mut types = Vec::new();
    for _ in 0..from.number()? {
        let byte = from.byte()?;
        types.push(Signature::type_of_byte(byte).ok_or_else(|| format!("{byte:#04x} is no type"))?);
    }
    Ok(types)
}

fn take_values(from: &mut Cursor<'_>) -> Result<Vec<Value>, Wrong> {
    let mut values = Vec::new();
    for _ in 0..from.number()? {
        values.push(take_value(from)?);
    }
    Ok(values)
}

fn take_value(from: &mut Cursor<'_>) -> Result<Value, Wrong> {
    let reference = |from: &mut Cursor<'_>| {
        let number = from.number()?.checked_sub(1);
        let number = number.map(u32::try_from).transpose();
        number.map_err(|_| Wrong::from("a reference of more than 32 bits"))
    };
    Ok(match from.byte()? {
        0x7f => Value::I32(u32::from_le_bytes(from.array()?)),
        0x7e => Value::I64(u64::from_le_bytes(from.array()?)),
        0x7d => Value::F32(u32::from_le_bytes(from.array()?)),
        0x7c => Value::F64(u64::from_le_bytes(from.array()?)),
        0x7b => Value::V128(u128::from_le_bytes(from.array()?)),
        0x70 => Value::Func(reference(from)?),
        0x6f => Value::Extern(reference(from)?),
        0x6e => Value::Object,
        other => return Err(format!("{other:#04x} is no type of a value")),
    })
}
