//! Runs a script: functions, arrays, maps and strings.

mod work;

const SCRIPT: &str = r#"
fn collatz(n) { let steps = 0; while n != 1 { n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 }; steps += 1; } steps }
let longest = 0; let seen = #{}; let words = [];
for n in 1..1500 {
    let steps = collatz(n);
    if steps > longest { longest = steps; }
    let key = `length ${steps % 50}`;
    seen[key] = (if key in seen { seen[key] } else { 0 }) + 1;
    if n % 10 == 0 { words.push(key.to_upper()); }
}
words.sort();
let text = "";
for word in words { text += word; }
longest * 100000 + seen.len() * 1000 + text.len()
"#;

fn main() {
    let engine = rhai::Engine::new();
    let script = engine.compile(SCRIPT).expect("a script");
    let mut sum = 0u64;
    for _ in 0..work::rounds() {
        let answer = engine.eval_ast::<i64>(&script).expect("a number");
        sum = work::checksum(sum, &answer.to_le_bytes());
    }
    println!("{sum:016x}");
}
