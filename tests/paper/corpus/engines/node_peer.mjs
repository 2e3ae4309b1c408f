// One module in node, in a process of its own: node_peer.mjs run FIGURES MODULE ARGUMENTS…
// What it took goes to the file FIGURES as JSON: nanoseconds and bytes.
import { readFileSync, writeFileSync } from 'node:fs';
import { WASI } from 'node:wasi';

const [, , , figures, path, ...rest] = process.argv;
const spent = (since) => { const { user, system } = process.cpuUsage(since); return (user + system) * 1000; };
const bytes = readFileSync(path);
const begin = process.cpuUsage();
const module = new WebAssembly.Module(bytes);
const compile = spent(begin);
const wasi = new WASI({ version: 'preview1', args: ['program', ...rest], env: {}, returnOnExit: true });
const instance = new WebAssembly.Instance(module, wasi.getImportObject());
const [cpu, wall] = [process.cpuUsage(), process.hrtime.bigint()];
const code = wasi.start(instance) ?? 0;
writeFileSync(figures, JSON.stringify({ compile, cpu: spent(cpu), wall: Number(process.hrtime.bigint() - wall) }));
process.exitCode = code;
