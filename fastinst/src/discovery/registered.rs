//! Registered code: what a runtime has told of the functions that it has made.

use std::ops::Range;
use wordpatch::CodeAddr;

/// The functions of a module that has no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    /// No other module that was registered in this process has it.
    pub(crate) number: u64,
    /// By address; none overlaps another.
    pub(crate) functions: Vec<Function>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) span: Range<CodeAddr>,
    pub(crate) name: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
}

impl Registered {
    /// The function that an address lies in.
    pub(crate) fn at(&self, address: CodeAddr) -> Option<&Function> {
        let at = self.functions.partition_point(|function| function.span.start <= address);
        let function = &self.functions[at.checked_sub(1)?];
        function.span.contains(&address).then_some(function)
    }

    /// From the first function's first byte to behind the last one's last.
    pub(crate) fn span(&self) -> Range<CodeAddr> {
        let [first, .., last] = &self.functions[..] else {
            return self.functions[0].span.clone();
        };
        first.span.start..last.span.end
    }
}
