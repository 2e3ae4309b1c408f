//! The output of a replayed program: what its WASI calls have written to the standard streams.

use super::{Print, Shared};
use crate::{AsContextMut as _, Caller, Error, Extern, Val};
use wasm_aot_trace::Value;

impl Shared {
    /// Prints the data that a WASI call has written to a stream.
    pub(super) fn print<T: 'static>(
        &self,
        caller: &mut Caller<'_, T>,
        function: u32,
        args: &[Val],
        results: &[Value],
    ) -> Result<(), Error> {
        let print = {
            let script = self.lock();
            let import = script.declared.imports.get(function as usize);
            let writes = import.is_some_and(|(module, name)| {
                module == "wasi_snapshot_preview1" && name == "fd_write"
            });
            let print: Option<Print> = script.print;
            print.filter(|_| writes && *results == [Value::I32(0)])
        };
        let (
            Some(print),
            [Val::I32(stream @ 1..=2), Val::I32(list), Val::I32(count), Val::I32(told)],
        ) = (print, args)
        else {
            return Ok(());
        };
        let Some(Extern::Memory(memory)) = caller.get_export("memory") else { return Ok(()) };
        let word = |caller: &mut Caller<'_, T>, at: u32| {
            let mut bytes = [0; 4];
            memory.read(caller.as_context_mut(), at as usize, &mut bytes).ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let mut left = word(caller, told.cast_unsigned()).unwrap_or_default() as usize;
        for i in 0..count.cast_unsigned() {
            let at = list.cast_unsigned().wrapping_add(i.wrapping_mul(8));
            let from = word(caller, at);
            let (Some(from), Some(len)) = (from, word(caller, at.wrapping_add(4))) else { break };
            // Limited by the memory's size, whatever the program claims.
            let most = memory.size(caller.as_context_mut())?.saturating_mul(65536);
            let mut bytes = vec![0; (len as usize).min(left).min(most as usize)];
            left -= bytes.len();
            if memory.read(caller.as_context_mut(), from as usize, &mut bytes).is_err() {
                break;
            }
            print(*stream == 2, &bytes);
        }
        Ok(())
    }
}
