impl super::function::Translator<'_> {
    pub(super) fn atomic(&mut self, _op: &wasmparser::Operator<'_>) -> Result<bool, crate::error::CompileError> {
        Ok(false)
    }
}
