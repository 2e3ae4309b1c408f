// The player: the host of the program, which does what the trace says. What it expects and finds is
// compared if CHECKED is true. Afterwards `replay` has the number of events that have passed, and
// what was wrong: 0, or 1 an argument, 2 a result, 3 the order, 4 a value, 5 a trap.

const replay = { event: 0, wrong: 0, message: '' };
globalThis.replay = replay;

{
  const decode = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const bytes = decode(EVENTS);
  const view = new DataView(bytes.buffer);
  const text = new TextDecoder();
  let at = 0;
  const ended = { what: 'the trace ends' };
  const things = [];
  const imported = { function: [], memory: [], table: [], global: [], tag: [] };
  let instance = null;
  let exiting = false;

  class Divergence extends Error {}
  const diverge = (wrong, message) => {
    if (replay.wrong === 0) { replay.wrong = wrong; replay.message = message; }
    throw new Divergence(message);
  };

  // A trap that no code of the program catches: JavaScript's own errors are caught by catch_all.
  const trap = new WebAssembly.Instance(new WebAssembly.Module(new Uint8Array(
    [0, 97, 115, 109, 1, 0, 0, 0, 1, 4, 1, 96, 0, 0, 3, 2, 1, 0, 7, 5, 1, 1, 116, 0, 0, 10, 5, 1, 3, 0, 0, 11]))).exports.t;

  // Numbers, values and ends of calls, as docs/trace-format.md has them.
  const wide = () => {
    let value = 0n, shift = 0n, byte;
    do { byte = bytes[at++]; value |= BigInt(byte & 127) << shift; shift += 7n; } while (byte & 128);
    return value;
  };
  const number = () => {
    const byte = bytes[at];
    if (byte < 128) { at++; return byte; }
    return Number(wide());
  };
  const counted = () => { const len = number(); at += len; return bytes.subarray(at - len, at); };
  const step = (len) => { at += len; return at - len; };
  const value = () => {
    switch (bytes[at++]) {
      case 0x7f: return view.getInt32(step(4), true);
      case 0x7e: return view.getBigInt64(step(8), true);
      case 0x7d: return view.getFloat32(step(4), true);
      case 0x7c: return view.getFloat64(step(8), true);
      case 0x70: { const index = number(); return index === 0 ? null : func(index - 1); }
      case 0x6f: {
        const index = number();
        if (index === 0) return null;
        if (index - 1 === things.length) things.push({ thing: index - 1 });
        return things[index - 1];
      }
      case 0x6e: return { thing: 'some' };
    }
    throw new Error('a value of no known type');
  };
  const values = () => { const list = []; for (let n = number(); n > 0; n--) list.push(value()); return list; };
  const end = () => {
    switch (bytes[at++]) {
      case 0: return { values: values() };
      case 1: {
        const code = view.getInt32(step(4), true);
        for (let n = number(); n > 0; n--) { number(); number(); }
        return { exit: code };
      }
      case 2: return { trap: text.decode(counted()) };
      default: return { tag: number(), values: values() };
    }
  };

  // What the program has, by kind and index.
  const item = (kind, index) => {
    if (kind !== 'function' && index < imported[kind].length) return imported[kind][index];
    const own = EXPORTS[kind].find((pair) => pair[0] === index);
    if (instance === null || own === undefined) throw new Error(`${kind} ${index} is not exported`);
    return instance.exports[own[1]];
  };
  const func = (index) => (index < FUNCTIONS ? item('function', index) : given[index - FUNCTIONS]);

  // Functions of the host that the program does not import. Only WebAssembly can make a function
  // with a type: a module that imports one and exports it again.
  const given = [];
  const declare = () => {
    while (bytes[at] === 5) {
      const start = ++at;
      for (const _ of ['parameters', 'results']) { const count = number(); at += count; }
      const type = bytes.subarray(start, at), length = type.length + 2;
      const section = [1, (length & 127) | 128, length >> 7, 1, 96, ...type];
      const module = new WebAssembly.Module(new Uint8Array(
        [0, 97, 115, 109, 1, 0, 0, 0, ...section, 2, 7, 1, 1, 104, 1, 102, 0, 0, 7, 5, 1, 1, 102, 0, 0]));
      const index = FUNCTIONS + given.length;
      const h = { f: (...args) => called(index, args) };
      given.push(new WebAssembly.Instance(module, { h }).exports.f);
      replay.event++;
    }
  };

  const any = (a, b) => a?.thing === 'some' && b !== null && b !== undefined;
  const isOwn = (a) => typeof a === 'function' && !given.includes(a);
  const one = (a, b) => isOwn(a) && isOwn(b) && a.name === b.name;
  const same = (a, b) => Object.is(a, b) || any(a, b) || one(a, b);
  const compare = (expected, found, wrong, what) => {
    if (!CHECKED) return;
    for (let i = 0; i < expected.length; i++) {
      if (!same(expected[i], found[i])) diverge(wrong, `${what} ${i}: expected ${String(expected[i])}, found ${String(found[i])}`);
    }
  };
  const listed = (result) => (result === undefined ? [] : Array.isArray(result) ? result : [result]);

  const change = (kind) => {
    const index = number();
    switch (kind) {
      case 0x10: {
        const address = number();
        const data = counted();
        new Uint8Array(item('memory', index).buffer).set(data, address);
        return;
      }
      case 0x11: {
        const memory = item('memory', index), pages = wide();
        try { memory.grow(Number(pages)); } catch (error) {
          if (!(error instanceof TypeError)) throw error;
          memory.grow(pages);
        }
        return;
      }
      case 0x12: item('global', index).value = value(); return;
      case 0x13: {
        const table = item('table', index), place = number();
        table.set(sized(table, place), value());
        return;
      }
      default: { const table = item('table', index), count = number(); table.grow(sized(table, count), value()); }
    }
  };
  // A table of 64 bits has indices of that type.
  const sized = (table, index) => (typeof table.length === 'bigint' ? BigInt(index) : index);
  // Changes of what is imported, before there is an instance.
  const before = () => {
    for (declare(); bytes[at] >= 0x10 && bytes[at] < 0x15; declare()) {
      const start = at, kind = bytes[at++];
      if (kind === 0x13) { at = start; return; }
      const index = number();
      if (kind === 0x12) {
        if (index >= IMPORTS.filter((own) => own[0] === 'global').length) { at = start; return; }
        first.set(index, value());
        replay.event++;
        continue;
      }
      if (index >= imported[kind < 0x12 ? 'memory' : 'table'].length) { at = start; return; }
      at = start + 1;
      if (kind === 0x10) written.push(at);
      change(kind);
      replay.event++;
    }
  };
  const first = new Map();
  // An instance copies its segments over what was written before.
  const written = [];
  const again = () => {
    const next = at;
    for (at of written) change(0x10);
    at = next;
  };
  // Globals come behind memories in a trace, and an instance needs them when it is made.
  const make = () => {
    const imports = {};
    const globals = [];
    for (const [kind, module, name, type] of IMPORTS) {
      let own;
      if (kind === 'function') { const index = imported.function.length; own = (...args) => called(index, args); }
      if (kind === 'memory') own = new WebAssembly.Memory(type);
      if (kind === 'table') own = new WebAssembly.Table(type);
      if (kind === 'tag') own = new WebAssembly.Tag(type);
      if (kind === 'global') globals.push([module, name, type, imported.global.length]);
      imported[kind].push(own);
      (imports[module] ??= {})[name] = own;
    }
    before();
    for (const [module, name, type, index] of globals) {
      const own = first.has(index) ? new WebAssembly.Global(type, first.get(index)) : new WebAssembly.Global(type);
      imported.global[index] = own;
      imports[module][name] = own;
    }
    return imports;
  };

  // The program calls its host.
  const called = (index, args) => {
    if (replay.wrong !== 0) trap();
    declare();
    if (at === bytes.length) {
      if (CHECKED) diverge(3, `event ${replay.event}: ${ended.what}, and function ${index} is called`);
      replay.message = ended.what;
      trap();
    }
    if (bytes[at] !== 3) diverge(3, `event ${replay.event}: function ${index} is called`);
    at++;
    const expected = number();
    if (expected !== index) diverge(3, `event ${replay.event}: function ${index} is called, and not ${expected}`);
    compare(values(), args, 1, `event ${replay.event}: argument`);
    replay.event++;
    const done = play();
    if (done === ended) {
      replay.message ||= `${ended.what}, and the host's function ${index} does not`;
      trap();
    }
    if (done.exit !== undefined) { exiting = true; trap(); }
    if (done.trap !== undefined) trap();
    if (done.tag !== undefined) throw new WebAssembly.Exception(item('tag', done.tag), done.values);
    return done.values.length === 0 ? undefined : done.values.length === 1 ? done.values[0] : done.values;
  };

  // The host calls the program, whose call ends as it did.
  const left = (act) => {
    let results = null, error = null;
    try { results = listed(act()); } catch (caught) { error = caught; }
    if (error instanceof Divergence || replay.wrong !== 0) throw error;
    declare();
    if (at === bytes.length) {
      if (CHECKED && error === null) diverge(5, `event ${replay.event}: ${ended.what}, and a call of the host's does not`);
      if (error !== null) replay.message ||= `${ended.what}, and a host's call ends later: ${error}`;
      return false;
    }
    if (bytes[at] !== 2) diverge(3, `event ${replay.event}: a call of the host's has ended: ${error}`);
    at++;
    const expected = end();
    const what = `event ${replay.event}: `;
    if (expected.exit !== undefined) {
      if (!exiting) diverge(3, `${what}the program does not exit`);
      exiting = false;
    } else if (expected.trap !== undefined) {
      if (!(error instanceof WebAssembly.RuntimeError)) diverge(5, `${what}the program does not trap`);
    } else if (expected.tag !== undefined) {
      const tag = item('tag', expected.tag);
      if (!(error instanceof WebAssembly.Exception && error.is(tag))) diverge(5, `${what}an exception with another tag, or none: ${error}`);
      compare(expected.values, expected.values.map((_, i) => error.getArg(tag, i)), 2, `${what}value`);
    } else if (error !== null) {
      diverge(5, `${what}${error}`);
    } else {
      compare(expected.values, results, 2, `${what}result`);
    }
    replay.event++;
    return true;
  };

  // What the host does, up to the end of its call or of the trace.
  const play = () => {
    for (declare(); at < bytes.length; declare()) {
      const kind = bytes[at];
      if (kind >= 0x10) { at++; change(kind); replay.event++; continue; }
      if (kind === 4) { at++; const done = end(); replay.event++; return done; }
      if (kind !== 1) diverge(3, `event ${replay.event}: control is the host's`);
      at++;
      const index = number();
      const door = bytes[at++];
      const f = door === 0 ? instance.exports[text.decode(counted())] : func(index);
      const args = values();
      replay.event++;
      if (!left(() => f(...args))) return ended;
    }
    return ended;
  };

  const run = () => {
    const module = new WebAssembly.Module(decode(PROGRAM));
    const imports = make();
    instance = new WebAssembly.Instance(module, imports);
    again();
    play();
  };

  try { run(); } catch (error) {
    if (replay.wrong === 0 && !(error instanceof WebAssembly.RuntimeError && replay.message !== '')) {
      if (!(error instanceof Divergence)) { replay.wrong = 4; replay.message = String(error); }
    }
  }
  if (typeof process === 'object' && replay.message !== '') {
    const how = replay.wrong === 0 ? 'stops' : 'leaves the trace';
    console.error(`the replay ${how} at event ${replay.event}: ${replay.message}`);
    process.exitCode = 1;
  }
}
