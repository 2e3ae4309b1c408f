// fi-record TOKEN
// Records a program in browsers, workers and node. Load it before the program, in each page, frame and worker that has
// one:
//
//     <script src="glue.js"></script>      importScripts("glue.js");      node --require ./glue.js app.js
//
// Whatever compiles the program from then on gets it rewritten, so that it records itself. The trace of each instance
// goes, piece by piece, to `wasm-aot record --serve`. It ends with the page or the process, or by
// `await WasmRecord.finish()`.
((config) => {
  "use strict";
  // A script that is loaded again, or for another program, finds what the first one has made.
  if (globalThis.WasmRecord) {
    globalThis.WasmRecord.add(config);
    return;
  }
  const native = {
    Module: WebAssembly.Module,
    Instance: WebAssembly.Instance,
    instantiate: WebAssembly.instantiate,
    compile: WebAssembly.compile,
  };
  // A piece of a trace, how late it is sent, and how much may be on its way.
  const PIECE = 1 << 20;
  const LATEST = 200;
  const MOST = 64 << 20;

  const programs = new Map();
  const names = new WeakMap();
  const streams = new Set();

  const place = ({ length, hash }) => `${length} ${hash}`;
  const bytesOf = (source) => {
    if (source instanceof ArrayBuffer) return new Uint8Array(source);
    return ArrayBuffer.isView(source) ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength) : null;
  };
  // FNV-1a of 32 bits, twice: the second one begins elsewhere.
  const hashOf = (bytes) => {
    let one = 0x811c9dc5;
    let other = 0x050c5d1f;
    for (const byte of bytes) {
      one = Math.imul(one ^ byte, 0x01000193);
      other = Math.imul(other ^ byte, 0x01000193) + 1;
    }
    const hex = (word) => (word >>> 0).toString(16).padStart(8, "0");
    return hex(one) + hex(other);
  };
  const decoded = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

  // The rewritten program for the original, and anything else as it is.
  const exchanged = (source) => {
    const bytes = bytesOf(source);
    const lengths = [...programs.values()].map((program) => program.length);
    if (!bytes || !lengths.includes(bytes.length)) return [source, null];
    const program = programs.get(place({ length: bytes.length, hash: hashOf(bytes) }));
    if (!program) return [source, null];
    program.bytes ??= decoded(program.module);
    return [program.bytes, program];
  };
  const named = (module, program) => {
    if (program) names.set(module, program);
    return module;
  };

  const node = globalThis.process?.versions?.node && typeof globalThis.window === "undefined";
  let complained = false;
  const complain = (why) => {
    if (!complained) console.warn(`record: ${why}: recording ends, and the program goes on`);
    complained = true;
    for (const stream of [...streams]) stream.stop();
  };

  // Sends pieces without waiting, each with its place in the trace, since they may arrive in any order.
  class Pages {
    constructor() {
      this.waiting = new Set();
      this.bytes = 0;
      this.fetch = globalThis.fetch.bind(globalThis);
      globalThis.addEventListener?.("pagehide", () => finish(true));
    }
    send(path, bytes, isLast) {
      this.bytes += bytes.length;
      // What outlives its page may have 64 KiB.
      const keepalive = isLast && bytes.length < 60000;
      const sent = this.fetch(`http://127.0.0.1:${path}`, { method: "POST", body: bytes, keepalive })
        .then(
          (answer) => answer.ok || complain("the recorder refuses the trace"),
          () => complain("no recorder answers"),
        )
        .finally(() => {
          this.bytes -= bytes.length;
          this.waiting.delete(sent);
        });
      this.waiting.add(sent);
      return this.bytes < MOST;
    }
    async done() {
      await Promise.all([...this.waiting]);
    }
  }

  // In node nothing is sent while the program runs, unless another thread does it.
  class Threads {
    constructor() {
      const builtin = (name) => globalThis.process.getBuiltinModule?.(name) ?? require(name);
      const { Worker } = builtin("node:worker_threads");
      const send = `
        const { parentPort, workerData } = require("node:worker_threads");
        const http = require("node:http");
        const agent = new http.Agent({ maxSockets: 1 });
        const tally = new Int32Array(workerData);
        const end = (isGood) => {
          if (!isGood) Atomics.store(tally, 1, 1);
          Atomics.add(tally, 0, 1);
          Atomics.notify(tally, 0);
        };
        parentPort.on("message", ({ path, bytes }) => {
          const [, port, rest] = /^(\\d+)(.*)$/.exec(path);
          const headers = { "Content-Length": bytes.length };
          const asked = { host: "127.0.0.1", port, path: rest, method: "POST", headers, agent };
          const request = http.request(asked, (answer) => {
            answer.resume();
            answer.on("end", () => end(answer.statusCode === 200));
          });
          request.on("error", () => end(false));
          request.end(bytes);
        });`;
      const shared = new SharedArrayBuffer(8);
      this.tally = new Int32Array(shared);
      this.sent = 0;
      this.worker = new Worker(send, { eval: true, execArgv: [], workerData: shared });
      this.worker.unref();
      globalThis.process.on("exit", () => {
        finish(true);
        const until = Date.now() + 10000;
        for (let done = 0; (done = Atomics.load(this.tally, 0)) < this.sent; ) {
          const left = until - Date.now();
          if (left <= 0 || this.has_failed() || Atomics.wait(this.tally, 0, done, left) === "timed-out") break;
        }
        this.has_failed();
      });
    }
    has_failed() {
      if (Atomics.load(this.tally, 1)) complain("no recorder takes the trace");
      return Atomics.load(this.tally, 1) === 1;
    }
    send(path, bytes) {
      if (this.has_failed()) return true;
      this.sent += 1;
      this.worker.postMessage({ path, bytes }, [bytes.buffer]);
      return (this.sent - Atomics.load(this.tally, 0)) * PIECE < MOST;
    }
    async done() {
      while (Atomics.load(this.tally, 0) < this.sent && !this.has_failed()) {
        await new Promise((again) => setTimeout(again, 5));
      }
    }
  }

  let sender;

  // The trace of an instance.
  class Stream {
    constructor(program) {
      const id = [...Array(4)].map(() => Math.floor(Math.random() * 2 ** 32).toString(16)).join("");
      this.path = `${program.port}/${program.token}/${program.name}/${id}`;
      this.offset = 0;
      // How many calls of the host's come before what there is is sent.
      this.calls = 0;
      this.enough = 64;
    }
    begin(instance) {
      this.exports = instance.exports;
      streams.add(this);
      this.timer = setInterval(() => this.drain(), LATEST);
      this.timer.unref?.();
    }
    tick() {
      this.calls += 1;
      if (this.calls >= this.enough && this.exports) {
        const length = this.drain();
        this.enough = Math.max(1, Math.min(1 << 16, Math.floor((this.calls * PIECE) / (length + 1))));
        this.calls = 0;
      }
    }
    drain(isLast = false) {
      if (!streams.has(this)) return 0;
      if (isLast) this.exports["record:finish"]();
      const [at, length] = this.exports["record:fetch"]();
      const bytes = new Uint8Array(this.exports["record:memory"].buffer, at >>> 0, length >>> 0).slice();
      if (isLast) this.end();
      if (length === 0 && !isLast) return 0;
      const { offset } = this;
      this.offset += bytes.length;
      const has_room = sender.send(`${this.path}/${offset}${isLast ? "/end" : ""}`, bytes, isLast);
      if (!has_room) complain("the recorder is slower than the program");
      return length;
    }
    end() {
      streams.delete(this);
      clearInterval(this.timer);
    }
    // No more of it is kept.
    stop() {
      this.exports["record:finish"]();
      this.exports["record:fetch"]();
      this.end();
    }
  }

  // Imports that look now and then whether there is something to be sent.
  const watched = (module, imports, stream) => {
    const all = Object.create(imports ?? null);
    for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
      const own = kind === "function" ? imports?.[from]?.[name] : null;
      if (typeof own !== "function") continue;
      if (!Object.hasOwn(all, from)) Object.defineProperty(all, from, { value: Object.create(imports[from]) });
      const value = (...args) => {
        stream.tick();
        return own(...args);
      };
      Object.defineProperty(all[from], name, { value });
    }
    return all;
  };

  const instantiated = (module, imports, make) => {
    const program = names.get(module);
    if (!program || complained) return make(imports);
    sender ??= node ? new Threads() : new Pages();
    const stream = new Stream(program);
    const keep = (instance) => {
      stream.begin(instance);
      return instance;
    };
    const made = make(watched(module, imports, stream));
    return made instanceof native.Instance ? keep(made) : made.then(keep);
  };

  const finish = (isLeaving) => {
    for (const stream of [...streams]) stream.drain(true);
    return isLeaving ? undefined : sender?.done();
  };

  // An engine that does not support what the rewritten program needs gets the original.
  const refused = (error, program) => {
    if (!program || !(error instanceof WebAssembly.CompileError)) throw error;
    complain(`this engine does not compile the rewritten program (${error.message})`);
  };

  WebAssembly.Module = new Proxy(native.Module, {
    construct: (target, [source, ...rest], other) => {
      const [bytes, program] = exchanged(source);
      const self = other === WebAssembly.Module ? target : other;
      try {
        return named(Reflect.construct(target, [bytes, ...rest], self), program);
      } catch (error) {
        refused(error, program);
        return Reflect.construct(target, [source, ...rest], self);
      }
    },
  });
  WebAssembly.Instance = new Proxy(native.Instance, {
    construct: (target, [module, imports]) => instantiated(module, imports, (all) => new target(module, all)),
  });
  WebAssembly.compile = async (source, ...rest) => {
    const [bytes, program] = exchanged(source);
    try {
      return named(await native.compile.call(WebAssembly, bytes, ...rest), program);
    } catch (error) {
      refused(error, program);
      return native.compile.call(WebAssembly, source, ...rest);
    }
  };
  WebAssembly.compileStreaming = async (source, ...rest) =>
    WebAssembly.compile(await (await source).arrayBuffer(), ...rest);
  WebAssembly.instantiate = async (source, imports, ...rest) => {
    const isModule = source instanceof native.Module;
    const module = isModule ? source : await WebAssembly.compile(source, ...rest);
    const make = (all) => native.instantiate.call(WebAssembly, module, all);
    const instance = await instantiated(module, imports, make);
    return isModule ? instance : { module, instance };
  };
  WebAssembly.instantiateStreaming = async (source, ...rest) =>
    WebAssembly.instantiate(await (await source).arrayBuffer(), ...rest);

  globalThis.WasmRecord = {
    add: (program) => {
      if (!programs.has(place(program))) programs.set(place(program), program);
    },
    // Ends all traces; they are where they go when it is done.
    finish: async () => finish(false),
  };
  globalThis.WasmRecord.add(config);
})(CONFIG);
