impl super::function::Translator<'_> {
    pub(super) fn vector(&mut self, _op: &wasmparser::Operator<'_>) -> Result<bool, crate::error::CompileError> {
        Ok(false)
    }
}
