// Runs replays that are scripts: pairs of a script and how many events it has to pass, or -1 if a trap ends it.
const fs = require('fs');
let failed = 0;
const args = process.argv.slice(2);
for (let i = 0; i < args.length; i += 2) {
  const events = Number(args[i + 1]);
  try { new Function(fs.readFileSync(args[i], 'utf8'))(); } catch (error) { globalThis.replay = { message: String(error) }; }
  const { event, wrong, message } = globalThis.replay;
  if (wrong !== 0 || (events >= 0 && event !== events)) {
    console.log(`${args[i]}: event ${event} of ${events}, wrong ${wrong}: ${message}`);
    failed = 1;
  }
}
process.exit(failed);
