// The host of programs that `whamm profile --host-api prof` has rewritten, for browsers, workers and node. Load it before the program:
//
//     <script src="glue.js"></script>      import "./glue.js";      require("./glue.js");
//
// Whatever is instantiated from then on and imports the module `prof` gets it. `WasmProf.saveResults()` asks all such instances for their
// arcs: its `flatProfile(n)` and `callGraph(n)` print n functions, `functions` and `arcs` are values. `WasmProf.printResults()` prints both.
//
// Workers load it, too. They tell the page, or node's main thread, what they have, whenever they have returned to their
// event loop and at most ten times a second; so results there are those of all threads. Workers that were started
// before the glue was loaded are not known.
(() => {
  "use strict";
  if (globalThis.WasmProf) return;
  const native = {
    Instance: WebAssembly.Instance,
    instantiate: WebAssembly.instantiate,
    compile: WebAssembly.compile,
  };
  const programs = [];

  // What workers have told last, by their numbers. The name of a page's worker ends with the number of the page, and
  // loses that here.
  const others = new Map();
  const threads = globalThis.process?.getBuiltinModule?.("node:worker_threads");
  const isPages = !threads && typeof importScripts === "function";
  const isWorker = threads ? !threads.isMainThread : isPages;
  const mark = " fastinst:";
  let page = threads ? "" : String(Math.random());
  if (isPages && self.name.includes(mark)) {
    const [name, ...rest] = self.name.split(mark);
    [page, self.name] = [rest.at(-1), name];
  }
  if (!threads && globalThis.Worker) {
    const named = (options) => ({ ...options, name: (options?.name ?? "") + mark + page });
    globalThis.Worker = new Proxy(Worker, {
      construct: (target, [url, options], made) => Reflect.construct(target, [url, named(options)], made),
    });
  }
  const channel = new BroadcastChannel(`fastinst:profile ${page}`);
  channel.unref?.();
  const number = Math.random();
  if (!isWorker) channel.onmessage = ({ data }) => others.set(data.from, data.arcs);
  let told = -Infinity, isDue = false;
  const tell = () => {
    [told, isDue] = [performance.now(), false];
    channel.postMessage({ from: number, arcs: arcsOf(programs) });
  };
  const tellSoon = () => {
    if (!isWorker || isDue) return;
    isDue = true;
    const rest = told + 100 - performance.now();
    if (rest > 0) setTimeout(tell, rest);
    else queueMicrotask(tell);
  };

  // Numbers and names of functions, a line each, as the program has them; 0 is the host.
  const namesOf = (module) => {
    const names = new Map([[0, "<spontaneous>"]]);
    for (const section of WebAssembly.Module.customSections(module, "fastinst:functions")) {
      for (const line of new TextDecoder().decode(section).split("\n")) {
        const blank = line.indexOf(" ");
        if (blank > 0) names.set(Number(line.slice(0, blank)), line.slice(blank + 1));
      }
    }
    return names;
  };

  // An instance, and what it has told: an arc is what was set for it and what was added to it.
  class Program {
    constructor(module) {
      this.names = namesOf(module);
      this.arcs = new Map();
      const arc = (from, to) => {
        tellSoon();
        const key = `${from} ${to}`;
        if (!this.arcs.has(key)) this.arcs.set(key, { from, to, set: [0, 0], added: [0, 0] });
        return this.arcs.get(key);
      };
      this.host = {
        getTime: () => performance.now(),
        clearResults: () => this.arcs.clear(),
        setArcData: (from, to, count, time) => {
          arc(from, to).set = [count >>> 0, time];
        },
        addArcData: (from, to, count, time) => {
          const { added } = arc(from, to);
          added[0] += count >>> 0;
          added[1] += time;
        },
        printResults: () => new Results([this]).print(),
        printInt: (number) => console.log(number),
      };
    }
  }

  const usesProf = (module) => WebAssembly.Module.imports(module).some((i) => i.module === "prof");

  const instantiated = (module, imports, make) => {
    if (!usesProf(module)) return make(imports);
    const program = new Program(module);
    const keep = (instance) => {
      program.exportData = instance.exports.exportData;
      programs.push(program);
      return instance;
    };
    const made = make({ ...imports, prof: program.host });
    return made instanceof native.Instance ? keep(made) : made.then(keep);
  };

  WebAssembly.Instance = new Proxy(native.Instance, {
    construct: (target, [module, imports]) => instantiated(module, imports, (all) => new target(module, all)),
  });
  WebAssembly.instantiate = async (source, imports, ...options) => {
    const isModule = source instanceof WebAssembly.Module;
    const module = isModule ? source : await native.compile.call(WebAssembly, source, ...options);
    const make = (all) => native.instantiate.call(WebAssembly, module, all);
    const instance = await instantiated(module, imports, make);
    return isModule ? instance : { module, instance };
  };
  WebAssembly.instantiateStreaming = async (source, ...rest) =>
    WebAssembly.instantiate(await (await source).arrayBuffer(), ...rest);

  const fixed = (number, digits, width = 0) => number.toFixed(digits).padEnd(width);

  // What programs have told so far, by the names of functions.
  const arcsOf = (from) =>
    from.flatMap(({ arcs, names }) => {
      const name = (id) => names.get(id) ?? `function ${id - 1}`;
      return [...arcs.values()].map(({ from, to, set, added }) => {
        return { from: name(from), to: name(to), count: set[0] + added[0], time: set[1] + added[1] };
      });
    });

  // The same, and what other threads have told. Functions of the same name are one.
  class Results {
    constructor(from) {
      const arcs = new Map();
      for (const { from: caller, to, count, time } of [arcsOf(from), ...others.values()].flat()) {
        const key = JSON.stringify([caller, to]);
        const arc = arcs.get(key) ?? { from: caller, to, count: 0, time: 0 };
        arc.count += count;
        arc.time += time;
        arcs.set(key, arc);
      }
      this.arcs = [...arcs.values()].filter((arc) => arc.count > 0);
      const functions = new Map();
      const entry = (name) => {
        if (!functions.has(name)) functions.set(name, { name, called: 0, cumulative: 0, self: 0 });
        return functions.get(name);
      };
      for (const { from, to, count, time } of this.arcs) {
        const callee = entry(to);
        callee.called += count;
        callee.self += time;
        // What a function takes in calls of itself is in the outermost already.
        if (from !== to) callee.cumulative += time;
        entry(from).self -= time;
      }
      this.total = -(functions.get("<spontaneous>")?.self ?? 0);
      functions.delete("<spontaneous>");
      this.functions = [...functions.values()];
      for (const f of this.functions) f.self = Math.max(f.self, 0);
    }

    share(time) {
      return fixed(this.total > 0 ? (100 * time) / this.total : 0, 2, 7);
    }

    flatProfile(n = Infinity) {
      const lines = [`Total time: ${fixed(this.total, 3)}`, " %     cumulative  self        called     self ms/call  total ms/call  name"];
      const order = [...this.functions].sort((a, b) => b.self - a.self || b.called - a.called);
      for (const f of order.slice(0, n)) {
        const each = [fixed(f.self / f.called, 3, 13), fixed(f.cumulative / f.called, 3, 14)];
        const figures = [fixed(f.cumulative, 3, 11), fixed(f.self, 3, 11), String(f.called).padEnd(10), ...each];
        lines.push(`${this.share(f.self)}${figures.join(" ")} ${f.name}`);
      }
      console.log(lines.join("\n"));
    }

    callGraph(n = 5) {
      const order = [...this.functions].sort((a, b) => b.cumulative - a.cumulative || b.called - a.called);
      const index = new Map(order.map((f, at) => [f.name, at]));
      const label = (name) => (index.has(name) ? `${name} [${index.get(name)}]` : name);
      const known = new Map(order.map((f) => [f.name, f]));
      const lines = ["index  % time  self       children   called         name"];
      const row = (self, children, called, name, at = "", share = "") =>
        lines.push(`${at.padEnd(6)} ${share.padEnd(7)} ${fixed(self, 3, 10)} ${fixed(children, 3, 10)} ${called.padEnd(14)} ${name}`);
      const part = (arc, name) => {
        const callee = known.get(arc.to);
        // Exact where one function calls it, and in proportion where several do.
        const all = this.arcs.filter((other) => other.to === arc.to).reduce((sum, other) => sum + other.time, 0);
        const self = all > 0 ? (callee.self * arc.time) / all : 0;
        row(self, Math.max(arc.time - self, 0), `${arc.count}/${callee.called}`, `    ${label(name)}`);
      };
      for (const f of order.slice(0, n)) {
        this.arcs.filter((arc) => arc.to === f.name).forEach((arc) => part(arc, arc.from));
        const at = `[${index.get(f.name)}]`;
        row(f.self, Math.max(f.cumulative - f.self, 0), String(f.called), f.name, at, this.share(f.cumulative).trim());
        this.arcs.filter((arc) => arc.from === f.name).forEach((arc) => part(arc, arc.to));
        lines.push("-".repeat(50));
      }
      console.log(lines.join("\n"));
    }

    print() {
      this.callGraph();
      this.flatProfile();
    }
  }

  globalThis.WasmProf = {
    saveResults() {
      for (const program of programs) program.exportData();
      return new Results(programs);
    },
    printResults() {
      this.saveResults().print();
    },
  };
})();
