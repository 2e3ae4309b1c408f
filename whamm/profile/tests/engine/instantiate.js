// Runs a module in each way that JavaScript has to instantiate one, with the glue in front: what it told after each. In node, pages and workers.
globalThis.instantiateAll = async (bytes) => {
  let exports;
  const imports = { host: { back: () => exports.g() } };
  const found = [];
  const said = [];
  const { log } = console;
  console.log = (text) => said.push(text);

  function run(instance) {
    ({ exports } = instance);
    exports.main();
    const results = globalThis.WasmProf.saveResults();
    found.push({ arcs: results.arcs, functions: results.functions, total: results.total });
  }

  run(new WebAssembly.Instance(new WebAssembly.Module(bytes), imports));
  run((await WebAssembly.instantiate(bytes, imports)).instance);
  run(await WebAssembly.instantiate(new WebAssembly.Module(bytes), imports));
  const response = new Response(bytes, { headers: { "Content-Type": "application/wasm" } });
  run((await WebAssembly.instantiateStreaming(response, imports)).instance);
  const plain = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])));
  globalThis.WasmProf.printResults();
  console.log = log;
  return { found, said: said.join("\n"), is_instance: plain instanceof WebAssembly.Instance };
};
