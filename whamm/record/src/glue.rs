//! A script that makes a page, a worker or node run the rewritten program instead of the original,
//! and sends its trace to `wasm-aot record --serve`.

use wasm_aot_trace::base64;

/// Where traces are sent.
#[derive(Clone, Debug)]
pub struct Server {
    /// The port on this machine.
    pub port: u16,
    /// Proves that a trace comes from a script that was made for this server.
    pub token: String,
}

/// Returns the script for a program, which it recognises by its bytes.
pub fn glue(original: &[u8], rewritten: &[u8], name: &str, server: &Server) -> String {
    // Used in file names: other characters of a program's name are replaced.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let name: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(64).collect();
    let config = format!(
        "{{ port: {}, token: \"{}\", name: \"{name}\", length: {}, hash: \"{}\", module: \"{}\" }}",
        server.port,
        server.token,
        original.len(),
        hash(original),
        base64(rewritten)
    );
    let script = include_str!("glue.js");
    let (text, call) = script.rsplit_once("CONFIG").expect("it ends by a call");
    text.replacen("TOKEN", &server.token, 1) + &config + call
}

/// Computes the same hash as the script: FNV-1a of 32 bits, twice.
fn hash(bytes: &[u8]) -> String {
    let (mut one, mut other) = (0x811c_9dc5_u32, 0x050c_5d1f_u32);
    for byte in bytes {
        one = (one ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        other = (other ^ u32::from(*byte)).wrapping_mul(0x0100_0193).wrapping_add(1);
    }
    format!("{one:08x}{other:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_token() {
        let server = Server { port: 7, token: "0123456789abcdef".into() };
        let script = glue(b"a", b"b", "my app.wasm", &server);
        assert_eq!(script.lines().next(), Some("// fi-record 0123456789abcdef"));
        let config = "{ port: 7, token: \"0123456789abcdef\", name: \"my_app_wasm\", length: 1, ";
        assert!(script.contains(config), "{script}");
    }
}
