//! Registered code: a runtime's descriptions of the functions that it has generated.

use profiler::FuncId;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use wordpatch::CodeAddr;

/// The functions of a module that has no file; or some variants of them, in a module of their own
/// since they lie elsewhere, which become more.
#[derive(Debug)]
pub(crate) struct Registered {
    /// No other module that was registered in this process has it, except for its variants.
    pub(crate) number: u64,
    /// Of variants: the number of the module whose functions they are.
    pub(crate) home: Option<usize>,
    /// By address; none overlaps another.
    functions: RwLock<Vec<Function>>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) span: Range<CodeAddr>,
    pub(crate) name: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// The start of the function of which this is a variant; otherwise the function's own start.
    pub(crate) start: CodeAddr,
    /// Its number, as soon as it has one.
    pub(crate) id: FuncId,
}

impl Function {
    /// Its length; 0 for a variant, which is not at the function's start.
    pub(crate) fn size(&self) -> usize {
        match self.start == self.span.start {
            true => self.span.end.distance_from(self.span.start) as usize,
            false => 0,
        }
    }
}

impl PartialEq for Registered {
    fn eq(&self, other: &Self) -> bool {
        (self.number, self.home) == (other.number, other.home)
            && *self.functions() == *other.functions()
    }
}

impl Eq for Registered {}

impl Registered {
    /// Functions in the order of their addresses, one at least.
    pub(crate) fn new(number: u64, home: Option<usize>, functions: Vec<Function>) -> Self {
        Self { number, home, functions: RwLock::new(functions) }
    }

    /// All of them.
    pub(crate) fn functions(&self) -> RwLockReadGuard<'_, Vec<Function>> {
        self.functions.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The function that an address lies in.
    pub(crate) fn at(&self, address: CodeAddr) -> Option<Function> {
        let functions = self.functions();
        let at = functions.partition_point(|function| function.span.start <= address);
        let function = &functions[at.checked_sub(1)?];
        function.span.contains(&address).then(|| function.clone())
    }

    /// Adds one; returns the name of an existing function that it overlaps, as an error.
    pub(crate) fn add(&self, new: Function) -> Result<(), String> {
        let mut functions = self.functions.write().unwrap_or_else(PoisonError::into_inner);
        let at = functions.partition_point(|function| function.span.start < new.span.start);
        let overlaps =
            |other: &&Function| other.span.start < new.span.end && new.span.start < other.span.end;
        let mut beside = functions[at.saturating_sub(1)..].iter().take(2);
        if let Some(other) = beside.find(overlaps) {
            return Err(format!("a variant of {} lies there", other.name));
        }
        functions.insert(at, new);
        Ok(())
    }

    /// From the first function's first byte to behind the last one's last.
    pub(crate) fn span(&self) -> Range<CodeAddr> {
        let functions = self.functions();
        let [first, .., last] = &functions[..] else {
            return functions[0].span.clone();
        };
        first.span.start..last.span.end
    }
}
