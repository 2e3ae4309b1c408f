// The glue in node's main thread and in two workers, each of which runs a module: what the main thread knows of all in
// the end, as JSON.
import fs from "node:fs";
import { createRequire } from "node:module";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);
const files = isMainThread ? process.argv.slice(2) : workerData;
const [glue, all, file] = files;
require(glue);
if (isMainThread) {
  const begin = () => new Worker(fileURLToPath(import.meta.url), { workerData: files });
  const ended = (worker) => new Promise((done, fail) => worker.on("exit", done).on("error", fail));
  await Promise.all([begin(), begin()].map(ended));
  const called = () => {
    const { functions } = globalThis.WasmProf.saveResults();
    const known = functions.filter((f) => ["main", "leaf"].includes(f.name));
    return Object.fromEntries(known.map((f) => [f.name, f.called]));
  };
  // What was told last may still be under way.
  const until = performance.now() + 20000;
  while (called().main !== 8 && performance.now() < until) await new Promise((done) => setTimeout(done, 10));
  process.stdout.write(JSON.stringify(called()));
} else {
  require(all);
  await globalThis.instantiateAll(fs.readFileSync(file));
  parentPort?.close();
}
