// Runs a program that records itself, with a host in JavaScript; writes its trace to a file.
// Arguments: the program, a library whose functions the host passes, the host's script, the trace.
const fs = require('fs');
const [program, library, script, trace] = process.argv.slice(2);
const compiled = (path) => new WebAssembly.Module(fs.readFileSync(path));
const host = new Function('library', 'start', fs.readFileSync(script, 'utf8'));
const start = (imports) => {
  start.exports = new WebAssembly.Instance(compiled(program), imports).exports;
  return start.exports;
};
host(new WebAssembly.Instance(compiled(library)).exports, start);
const { 'record:finish': finish, 'record:fetch': fetch, 'record:memory': memory } = start.exports;
finish();
const [at, length] = fetch();
fs.writeFileSync(trace, new Uint8Array(memory.buffer, at, length));
