// Runs every module of a folder on node: with WASI and the folder if it has `_start`, otherwise its export `f1` with a host that calls back.
// Prints what came of each, as JSON: what it threw, and the profile that it keeps.
import fs from "node:fs";
import path from "node:path";
import { WASI } from "node:wasi";

function kept(exports) {
  const [at, size] = exports["fastinst:profile"]();
  return JSON.parse(Buffer.from(new Uint8Array(exports["fastinst:memory"].buffer, at, size)).toString());
}

function run(folder, file) {
  const module = new WebAssembly.Module(fs.readFileSync(path.join(folder, file)));
  if (WebAssembly.Module.exports(module).some((e) => e.name === "_start")) {
    const wasi = new WASI({ version: "preview1", returnOnExit: true, preopens: { "/": folder }, stderr: fs.openSync(path.join(folder, file + ".stderr"), "w") });
    const instance = new WebAssembly.Instance(module, wasi.getImportObject());
    const code = wasi.start(instance);
    return { code, kept: kept(instance.exports) };
  }
  let exports;
  const tag = new WebAssembly.Tag({ parameters: ["i32"] });
  const host = {
    tag,
    back: (n) => exports["f" + n]?.(),
    work() {},
    throw: (n) => { throw new WebAssembly.Exception(tag, [n]); },
  };
  exports = new WebAssembly.Instance(module, { host, prof: { getTime: () => performance.now() } }).exports;
  let thrown = "";
  try {
    exports.f1();
  } catch (e) {
    thrown = String(e);
  }
  return { thrown, kept: kept(exports) };
}

const folder = process.argv[2];
const modules = fs.readdirSync(folder).filter((name) => name.endsWith(".wasm"));
console.log(JSON.stringify(Object.fromEntries(modules.map((name) => [path.parse(name).name, run(folder, name)]))));
