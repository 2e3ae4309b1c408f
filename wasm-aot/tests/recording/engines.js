// Runs replays that check themselves in node; arguments as those of engines.py.
const fs = require('fs');
let failed = 0;
const args = process.argv.slice(2);
for (let i = 0; i < args.length; i += 2) {
  const events = BigInt(args[i + 1]);
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync(args[i])));
  let trapped = false;
  try { exports._start(); } catch (error) { trapped = true; }
  const event = exports['replay:event'].value, wrong = exports['replay:wrong'].value;
  if (wrong !== 0 || trapped !== events < 0n || (events >= 0n && event !== events)) {
    console.log(`${args[i]}: event ${event} of ${events}, wrong ${wrong}, trapped ${trapped}`);
    failed = 1;
  }
}
process.exit(failed);
