//! Detaching from a process that keeps running, and attaching to it again: all sites lead where the
//! program had them lead, and to their trampolines again.

use super::ModuleRegistry;
use crate::runtime::sites;
use callpatch::{Retarget, Role, Switch};
use std::sync::atomic::Ordering::Relaxed;
use wordpatch::Policy;

impl ModuleRegistry {
    /// Restores all code. Sites are off, and no hook switches any.
    pub(in crate::runtime) fn withdraw(&mut self, policy: &Policy) -> Result<(), String> {
        let mut batch = Retarget::new(*policy);
        for (number, site) in sites::all().filter(|(_, site)| !site.gone.load(Relaxed)) {
            if site.is_pun() {
                site.call().set(Switch::Off).map_err(|error| error.to_string())?;
            }
            // A pun's displacement is the program's own.
            let now = site.call().destination().address();
            if site.call().role() == Role::Pun || now == site.home() {
                continue;
            }
            // SAFETY: (1) what the program had there; (2) its module is loaded; (3) no hook and no
            // other thread switches it.
            #[allow(unsafe_code)]
            unsafe {
                batch.push_shared(site.call(), site.home()).map_err(|error| error.to_string())?;
            }
            self.withdrawn.push((number.0, now));
        }
        batch.commit().map_err(|error| error.to_string())?;
        if let Some(unmodified) = &self.unmodified {
            unmodified.points.change_semaphores(-1);
        }
        for site in self.withdrawn.iter().filter_map(|(number, _)| sites::get(*number)) {
            if !site.is_pun() {
                site.call().set(Switch::On).map_err(|error| error.to_string())?;
            }
        }
        for entry in self.entries.iter().filter(|entry| entry.is_loaded()) {
            // SAFETY: (1) a module that is loaded; (2) sites are not switched any more.
            #[allow(unsafe_code)]
            unsafe { wordpatch::lock_again(&entry.module.span) }
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Redirects all sites to their trampolines again.
    pub(in crate::runtime) fn redirect_again(&mut self, policy: &Policy) -> Result<(), String> {
        for entry in self.entries.iter().filter(|entry| entry.is_loaded()) {
            // SAFETY: (1) a module that is loaded.
            #[allow(unsafe_code)]
            unsafe { wordpatch::unlock_again(&entry.module.span) }
                .map_err(|error| error.to_string())?;
        }
        if let Some(unmodified) = &self.unmodified {
            unmodified.points.change_semaphores(1);
        }
        let mut batch = Retarget::new(*policy);
        for (number, to) in std::mem::take(&mut self.withdrawn) {
            let Some(site) = sites::get(number).filter(|site| !site.gone.load(Relaxed)) else {
                continue;
            };
            // SAFETY: (1) its trampoline, which is there as long as its module; (2) its module is
            // loaded; (3) no hook switches any site yet.
            #[allow(unsafe_code)]
            unsafe {
                batch.push_shared(site.call(), to).map_err(|error| error.to_string())?;
            }
        }
        batch.commit().map(drop).map_err(|error| error.to_string())
    }
}
