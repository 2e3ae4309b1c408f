// Runs every module of a folder on node, linked with the modules in its folder `lib`: prints what came of each, as JSON.
import fs from "node:fs";
import path from "node:path";

class Exit extends Error {}

function run(folder, file) {
  const written = [];
  let exports;
  const memory = () => new Uint8Array(exports.memory.buffer);
  const word = (at) => new DataView(exports.memory.buffer).getUint32(at, true);
  const imports = {
    env: { log() {} },
    wasi_snapshot_preview1: {
      fd_write(_fd, list, count, total) {
        let size = 0;
        for (let i = 0; i < count; i++) {
          const [at, len] = [word(list + 8 * i), word(list + 8 * i + 4)];
          written.push(Buffer.from(memory().slice(at, at + len)));
          size += len;
        }
        new DataView(exports.memory.buffer).setUint32(total, size, true);
        return 0;
      },
      proc_exit() {
        throw new Exit();
      },
    },
  };
  for (const library of fs.readdirSync(path.join(folder, "lib"))) {
    const module = new WebAssembly.Module(fs.readFileSync(path.join(folder, "lib", library)));
    imports[path.parse(library).name] = new WebAssembly.Instance(module, {}).exports;
  }
  exports = new WebAssembly.Instance(new WebAssembly.Module(fs.readFileSync(path.join(folder, file))), imports).exports;
  const kept = () => {
    if (!exports["whamm:report"]) return "";
    const [at, size] = exports["whamm:report"]();
    return Buffer.from(new Uint8Array(exports["whamm:memory"].buffer, at, size)).toString();
  };
  let trapped = false;
  try {
    (exports._start ?? exports.main)();
  } catch (e) {
    if (!(e instanceof Exit)) {
      if (!(e instanceof WebAssembly.RuntimeError)) throw e;
      trapped = true;
      if (!kept()) exports["whamm:flush"]?.();
    }
  }
  return { written: Buffer.concat(written).toString(), kept: kept(), trapped };
}

const folder = process.argv[2];
const modules = fs.readdirSync(folder).filter((name) => name.endsWith(".wasm"));
console.log(JSON.stringify(Object.fromEntries(modules.map((name) => [path.parse(name).name, run(folder, name)]))));
