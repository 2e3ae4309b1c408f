//! Shared code of the process tests: small functions with a site of every form.
#![allow(unsafe_code, dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use callpatch::{CallSite, Destination, Form, Role, Survey};
use wordpatch::{CodeAddr, CodeMemory, Policy};

/// Every form with every role that it can have.
pub fn kinds() -> impl Iterator<Item = (Form, Role)> {
    let roles = [Role::Call, Role::TailJump, Role::Detour];
    let all = Form::ALL.into_iter().flat_map(move |form| roles.map(|role| (form, role)));
    all.filter(|(form, role)| form.off(*role).is_some())
}

/// The result of the function when its site is off.
pub const OFF: u32 = 1;

/// A function that returns [`OFF`], or the result of the hook that its site leads to: 2 or 3.
///
/// ```text
///   mov eax, 1 │ site │ ret          hooks: mov eax, 2; ret and mov eax, 3; ret, and a slot for each
/// ```
pub struct Function {
    memory: CodeMemory,
    form: Form,
    role: Role,
    at: usize,
}

const HOOKS: [usize; 2] = [1024, 2048];
const SLOTS: [usize; 2] = [3072, 3080];

impl Function {
    /// With its site at an offset of the memory, which is page-aligned.
    pub fn new(form: Form, role: Role, at: usize) -> Self {
        let mut memory = CodeMemory::new(4096).unwrap();
        for (number, (hook, slot)) in [2u8, 3].into_iter().zip(HOOKS.into_iter().zip(SLOTS)) {
            memory.write(hook, &[0xb8, number, 0, 0, 0, 0xc3]);
            memory.write(slot, &memory.base().offset(hook as isize).get().to_le_bytes());
        }
        let mut function = Self { memory, form, role, at };
        let to = form.displacement(function.site_at(), function.target(0)).unwrap();
        let code = [&[0xb8, 1, 0, 0, 0][..], &form.bytes(to), &[0xc3]].concat();
        function.memory.write(at - 5, &code);
        function
    }

    pub fn site_at(&self) -> CodeAddr {
        self.memory.base().offset(self.at as isize)
    }

    /// The hook, or the slot of the hook, that returns `2 + n`.
    pub fn target(&self, n: usize) -> CodeAddr {
        let places = if self.form.is_through_memory() { SLOTS } else { HOOKS };
        self.memory.base().offset(places[n] as isize)
    }

    /// The code of that hook.
    pub fn hook(&self, n: usize) -> CodeAddr {
        self.memory.base().offset(HOOKS[n] as isize)
    }

    pub fn leads_to(&self, n: usize) -> Destination {
        let target = self.target(n);
        if self.form.is_through_memory() {
            Destination::Slot(target)
        } else {
            Destination::Code(target)
        }
    }

    pub fn entry(&self) -> extern "C" fn() -> u32 {
        // SAFETY: (1) `new` has laid it out as a function that takes no arguments and returns a
        // number.
        unsafe { std::mem::transmute(self.memory.base().offset(self.at as isize - 5).as_ptr()) }
    }

    pub fn call(&self) -> u32 {
        self.entry()()
    }

    pub fn adopt(&self, policy: &Policy) -> CallSite {
        self.adopt_by(&mut Survey::new(*policy).unwrap())
    }

    pub fn adopt_by(&self, survey: &mut Survey) -> CallSite {
        let hook = self.leads_to(0);
        // SAFETY: (1) to (5): the test's own function, which outlives the site.
        unsafe { survey.adopt(self.site_at(), self.role, |to| to == hook) }.unwrap()
    }

    pub fn write(&mut self, at: isize, bytes: &[u8]) {
        self.memory.write(self.at.checked_add_signed(at).unwrap(), bytes);
    }

    pub fn byte(&self, at: isize) -> u8 {
        // SAFETY: (1) inside the memory.
        unsafe { wordpatch::live::load_byte(self.site_at().offset(at)) }
    }
}
