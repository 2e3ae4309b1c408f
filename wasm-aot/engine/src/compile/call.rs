//! Translates calls: direct, through tables, through references, tail calls, and calls of the
//! runtime.
//!
//! Inside of a try region every call that may throw is a `try_call` whose exceptional edge leads to
//! the innermost landing.

use super::function::{FUNCTIONS, Translator, signature};
use crate::error::CompileError;
use crate::trap::Trap;
use crate::types::HeapType;
use crate::vm::{Builtin, at};
use cranelift_codegen::ir::{
    AbiParam, BlockArg, BlockCall, ExceptionTableData, ExceptionTableItem, ExtFuncData,
    ExternalName, FuncRef, InstBuilder, MemFlagsData, SigRef, Signature, UserExternalName, Value,
    condcodes::IntCC, types,
};

/// The callee.
#[derive(Clone, Copy)]
pub(super) enum Called {
    /// A function of this module.
    Direct(FuncRef),
    /// Code with a signature.
    Indirect(SigRef, Value),
}

impl Translator<'_> {
    pub(super) fn call(&mut self, index: u32) -> Result<(), CompileError> {
        if self.call_nested(index)? {
            return Ok(());
        }
        let (target, vmctx) = self.direct(index);
        self.call_wasm(target, vmctx, self.info.functions[index as usize]);
        Ok(())
    }

    pub(super) fn return_call(&mut self, index: u32) -> Result<(), CompileError> {
        if self.is_nested() {
            self.call(index)?;
            self.return_();
            return Ok(());
        }
        let (target, vmctx) = self.direct(index);
        self.return_call_wasm(target, vmctx, self.info.functions[index as usize]);
        Ok(())
    }

    pub(super) fn call_indirect(&mut self, ty: u32, table: u32) {
        let index = self.pop();
        let (code, vmctx) = self.indirect(index, ty, table);
        let target = Called::Indirect(self.signature_of(ty), code);
        self.call_wasm(target, vmctx, ty);
    }

    pub(super) fn return_call_indirect(&mut self, ty: u32, table: u32) {
        let index = self.pop();
        let (code, vmctx) = self.indirect(index, ty, table);
        let target = Called::Indirect(self.signature_of(ty), code);
        self.return_call_wasm(target, vmctx, ty);
    }

    pub(super) fn call_ref(&mut self, ty: u32) {
        let function = self.pop();
        let (code, vmctx) = self.enter(function, Trap::NullFunctionReference);
        let target = Called::Indirect(self.signature_of(ty), code);
        self.call_wasm(target, vmctx, ty);
    }

    pub(super) fn return_call_ref(&mut self, ty: u32) {
        let function = self.pop();
        let (code, vmctx) = self.enter(function, Trap::NullFunctionReference);
        let target = Called::Indirect(self.signature_of(ty), code);
        self.return_call_wasm(target, vmctx, ty);
    }

    /// A function of this module or an imported one, and the instance it runs in.
    fn direct(&mut self, index: u32) -> (Called, Value) {
        if index >= self.info.imported.functions {
            return (Called::Direct(self.function_ref(index)), self.vmctx);
        }
        let import = self.layout.function(index);
        let code = self.fixed_word(import + at::FUNC_CODE);
        let vmctx = self.fixed_word(import + at::FUNC_VMCTX);
        let signature = self.signature_of(self.info.functions[index as usize]);
        (Called::Indirect(signature, code), vmctx)
    }

    /// The function of a table, checked for its type: code and instance.
    fn indirect(&mut self, index: Value, ty: u32, table: u32) -> (Value, Value) {
        let function = self.table_element(table, index, Trap::UndefinedElement);
        let element = self.info.tables[table as usize].element;
        if element.heap == HeapType::Concrete(ty) {
            // Every element is of that type; at most it is null.
            return self.enter(function, Trap::UninitializedElement);
        }
        // A null reference is detected by a fault: nothing is mapped at its address.
        let flags = MemFlagsData::new()
            .with_aligned()
            .with_readonly()
            .with_trap_code(Some(Trap::UninitializedElement.code()));
        let found = self.builder.ins().load(types::I32, flags, function, at::FUNC_TYPE);
        let fixed = self.fixed();
        let expected =
            self.builder.ins().load(types::I32, fixed, self.vmctx, self.layout.type_number(ty));
        let equal = self.builder.ins().icmp(IntCC::Equal, found, expected);
        self.trap_unless(equal, Trap::IndirectCallType);
        self.count_target(function);
        self.parts(function)
    }

    /// Code and instance of a function that may be null.
    fn enter(&mut self, function: Value, trap: Trap) -> (Value, Value) {
        let flags =
            MemFlagsData::new().with_aligned().with_readonly().with_trap_code(Some(trap.code()));
        let code = self.builder.ins().load(types::I64, flags, function, at::FUNC_CODE);
        self.count_target(function);
        let fixed = MemFlagsData::trusted().with_readonly();
        let vmctx = self.builder.ins().load(types::I64, fixed, function, at::FUNC_VMCTX);
        (code, vmctx)
    }

    fn parts(&mut self, function: Value) -> (Value, Value) {
        let flags = MemFlagsData::trusted().with_readonly();
        let code = self.builder.ins().load(types::I64, flags, function, at::FUNC_CODE);
        let vmctx = self.builder.ins().load(types::I64, flags, function, at::FUNC_VMCTX);
        (code, vmctx)
    }

    fn call_wasm(&mut self, target: Called, vmctx: Value, ty: u32) {
        let ty = &self.info.types[ty as usize];
        let (params, results) = (ty.params().len(), ty.results().len());
        let mut args = vec![vmctx];
        args.extend(self.pop_many(params));
        let results = self.call_that_may_throw(target, &args, results);
        self.stack.extend(results);
    }

    fn return_call_wasm(&mut self, target: Called, vmctx: Value, ty: u32) {
        if self.is_nested() {
            self.call_wasm(target, vmctx, ty);
            return self.return_();
        }
        let params = self.info.types[ty as usize].params();
        self.fire_exit(params);
        let params = params.len();
        let mut args = vec![vmctx];
        args.extend(self.pop_many(params));
        match target {
            Called::Direct(function) => self.builder.ins().return_call(function, &args),
            Called::Indirect(signature, code) => {
                self.builder.ins().return_call_indirect(signature, code, &args)
            }
        };
        self.reachable = false;
    }

    /// Calls, with an edge for exceptions if there is a landing.
    pub(super) fn call_that_may_throw(
        &mut self,
        target: Called,
        args: &[Value],
        results: usize,
    ) -> Vec<Value> {
        let Some(landing) = self.landing() else {
            let call = match target {
                Called::Direct(function) => self.builder.ins().call(function, args),
                Called::Indirect(signature, code) => {
                    self.builder.ins().call_indirect(signature, code, args)
                }
            };
            return self.builder.inst_results(call).to_vec();
        };
        let signature = match target {
            Called::Direct(function) => self.builder.func.dfg.ext_funcs[function].signature,
            Called::Indirect(signature, _) => signature,
        };
        let normal = self.builder.create_block();
        let returns = self.builder.func.dfg.signatures[signature].returns.clone();
        for result in &returns {
            self.builder.append_block_param(normal, result.value_type);
        }
        let watched = self.watch_call();
        let lists = &mut self.builder.func.dfg.value_lists;
        let returned = BlockCall::new(normal, (0..results as u32).map(BlockArg::TryCallRet), lists);
        let first = watched.unwrap_or(landing);
        let thrown = BlockCall::new(first, [BlockArg::TryCallExn(0)], lists);
        let table =
            ExceptionTableData::new(signature, returned, [ExceptionTableItem::Default(thrown)]);
        let table = self.builder.func.dfg.exception_tables.push(table);
        match target {
            Called::Direct(function) => self.builder.ins().try_call(function, args, table),
            Called::Indirect(_, code) => self.builder.ins().try_call_indirect(code, args, table),
        };
        if let Some(block) = watched {
            self.fire_thrown(block, landing);
        }
        self.builder.seal_block(normal);
        self.builder.switch_to_block(normal);
        self.builder.block_params(normal).to_vec()
    }

    pub(super) fn signature_of(&mut self, ty: u32) -> SigRef {
        if let Some(known) = self.signatures.get(&ty) {
            return *known;
        }
        let reference = self.builder.import_signature(signature(&self.info.types[ty as usize]));
        self.signatures.insert(ty, reference);
        reference
    }

    fn function_ref(&mut self, index: u32) -> FuncRef {
        if let Some(known) = self.functions.get(&index) {
            return *known;
        }
        let signature = self.signature_of(self.info.functions[index as usize]);
        let name = self
            .builder
            .func
            .declare_imported_user_function(UserExternalName::new(FUNCTIONS, index));
        let data = ExtFuncData {
            name: ExternalName::user(name),
            signature,
            colocated: true,
            patchable: false,
        };
        let reference = self.builder.import_function(data);
        self.functions.insert(index, reference);
        reference
    }

    /// Calls a function of the runtime.
    pub(super) fn builtin(&mut self, builtin: Builtin, args: &[Value]) -> Option<Value> {
        let mut all = vec![self.vmctx];
        all.extend_from_slice(args);
        self.plain_builtin(builtin, &all)
    }

    /// Calls a function of the runtime with these arguments alone.
    pub(super) fn plain_builtin(&mut self, builtin: Builtin, args: &[Value]) -> Option<Value> {
        let signature = match self.builtins.get(&(builtin as u8)) {
            Some(known) => *known,
            None => {
                let signature = self.builder.import_signature(builtin_signature(builtin));
                self.builtins.insert(builtin as u8, signature);
                signature
            }
        };
        let table = self.fixed_word(at::BUILTINS);
        let fixed = self.fixed();
        let code = self.builder.ins().load(types::I64, fixed, table, builtin.offset());
        let call = self.builder.ins().call_indirect(signature, code, args);
        self.builder.inst_results(call).first().copied()
    }
}

pub(super) fn builtin_signature(builtin: Builtin) -> Signature {
    let mut signature = Signature::new(builtin.convention());
    if builtin.takes_vmctx() {
        signature.params.push(AbiParam::new(types::I64));
    }
    signature.params.extend(builtin.params().iter().map(|ty| AbiParam::new(*ty)));
    signature.returns.extend(builtin.results().iter().map(|ty| AbiParam::new(*ty)));
    signature
}
