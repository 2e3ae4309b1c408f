//! Names as people write them: C++, and both of Rust's schemes.

/// The name as it is written in the source, without arguments; a name that is not mangled as it is.
/// Names of hostile length stay as they are, but for control characters.
pub fn demangled(name: &str) -> String {
    profiler::human::printable(&written(name)).into_owned()
}

fn written(name: &str) -> String {
    const LONGEST: usize = 8192;
    if name.len() > LONGEST {
        return name.to_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    if !name.starts_with("_Z") {
        return name.to_owned();
    }
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    let symbol = cpp_demangle::Symbol::new(name.as_bytes());
    symbol
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_in_the_source() {
        for (mangled, written) in [
            ("main", "main"),
            ("_ZN3foo3barEi", "foo::bar"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backERKi",
                "std::vector<int, std::allocator<int> >::push_back",
            ),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_Znot_really", "_Znot_really"),
        ] {
            assert_eq!(demangled(mangled), written);
        }
        let hostile = "_Z".to_owned() + &"N".repeat(100_000);
        assert_eq!(demangled(&hostile), hostile);
        assert_eq!(demangled("a\x1b]0;title\x07\nb"), "a ]0;title  b");
    }
}
