"use strict";
(async () => {
const $ = (id) => document.getElementById(id);
const make = (tag, more = {}, ...inside) => {
  const element = Object.assign(document.createElement(tag), more);
  element.append(...inside);
  return element;
};

// The data: JSON, compressed, in base 64.
const packed = Uint8Array.from(atob($("data").textContent), (letter) => letter.charCodeAt(0));
const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
const data = await new Response(stream).json();
const all = data.functions, size = all.name.length;

// Numbers as the table of the command has them: three digits, a unit, and a mark.
const digits = (value) => value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
const time = (ns) => {
  const [by, unit] = UNITS.find(([by]) => ns >= by) ?? UNITS[3];
  return `${digits(ns / by)} ${unit}`;
};
const count = (value) => {
  if (value < 1e5) return value.toFixed(0);
  const [by, unit] = value < 1e6 ? [1e3, "k"] : value < 1e9 ? [1e6, "M"] : [1e9, "G"];
  return digits(value / by) + unit;
};
const percent = (part) => `${(100 * part).toFixed(1)}%`;
const value = (figure) => Array.isArray(figure) ? figure[0] : figure;
// A figure is nothing, a number, or a number with its mark.
const shown = (figure, write) => {
  if (figure === null || figure === undefined) return "-";
  return Array.isArray(figure) ? figure[1] + write(figure[0]) : write(figure);
};
// What is not sure is ranked by what is sure of it: by its third part.
const rank = (figure) => Array.isArray(figure) ? figure[2] ?? figure[0] : figure ?? -1;

const share = (row) => row.own === null ? null : value(row.own) / data.whole;
// What is told as a bound from above adds nothing that is known.
const sure = (row) => row.own?.[1] === "≤" ? Math.max(rank(row.own), 0) / data.whole : share(row) ?? 0;
const rowOf = (at) => ({ at, name: all.name[at], own: all.own[at] });
const rows = Array.from({ length: size }, (_, at) => rowOf(at));
data.others.forEach(([name, own]) => rows.push({ at: -1, name, own }));
const figure = (column) => (row) => row.at < 0 ? null : all[column][row.at];
const text = (column, write) => (row) => row.at < 0 ? "" : shown(all[column][row.at], write);
const moduleOf = (row) => row.at < 0 ? "" : data.modules[all.module[row.at]] ?? "";
const placeOf = (row) => row.at < 0 ? "" : all.place[row.at] ?? "";
const split = (row) => {
  const part = row.at < 0 ? null : value(all.waiting[row.at]);
  if (part === null) return "";
  const bar = make("span", { className: "split", title: `waiting ${percent(part)} of wall-clock time` });
  bar.append(make("span", { className: "run", style: `width:${100 - 100 * part}%` }));
  bar.append(make("span", { className: "wait", style: `width:${100 * part}%` }));
  return bar;
};
const largest = rows.reduce((most, row) => Math.max(most, sure(row)), 1e-9);
const bar = (row) => share(row) === null
  ? "" : make("span", { className: "bar", style: `width:${100 * sure(row) / largest}%` });

const marked = (row) => row.own === null || row.own === undefined ? "-"
  : (Array.isArray(row.own) ? row.own[1] : "") + percent(share(row));
const COLUMNS = [
  { id: "own", title: "self %", wide: 84, by: (row) => rank(row.own), cell: marked },
  { id: "bar", title: "", wide: 60, cell: bar, style: "second" },
  { id: "name", title: "function", left: true, by: (row) => row.name, cell: (row) => row.name },
  { id: "total", title: "total", wide: 96, cell: text("total", time) },
  { id: "wall", title: "wall", wide: 96, cell: text("wall", time), style: "third" },
  { id: "waiting", title: "waiting", wide: 90, cell: split, style: "spare" },
  { id: "calls", title: "calls", wide: 84, cell: text("calls", count) },
  { id: "mean", title: "mean", wide: 92, cell: text("mean", time), style: "spare" },
  { id: "p50", title: "p50", wide: 92, cell: text("p50", time), style: "third" },
  { id: "p99", title: "p99", wide: 92, cell: text("p99", time), style: "second" },
  { id: "max", title: "max", wide: 92, cell: text("max", time), style: "second" },
  { id: "module", title: "module", wide: 120, left: true, by: moduleOf, cell: moduleOf, style: "third" },
  { id: "place", title: "file:line", wide: 140, left: true, by: placeOf, cell: placeOf, style: "spare" },
];
COLUMNS.forEach((column) => column.by ??= column.title && ((row) => rank(figure(column.id)(row))));

// The table: only rows that can be seen are in the page.
let height = 26;
let chosen = null, order = { id: "own", down: true }, wanted = null, visible = rows;
const heads = new Map();
for (const column of COLUMNS) {
  const head = make("th", { className: `${column.left ? "left " : ""}${column.style ?? ""}` });
  if (column.wide) head.style.width = `${column.wide}px`;
  if (column.title) {
    const sort = () => {
      const down = order.id === column.id ? !order.down : !column.left;
      order = { id: column.id, down };
      fill();
    };
    head.append(make("button", { type: "button", textContent: column.title, onclick: sort }));
    heads.set(column.id, head);
  }
  $("functions").tHead.rows[0].append(head);
}

const fill = () => {
  const column = COLUMNS.find((column) => column.id === order.id), sign = order.down ? -1 : 1;
  const keys = new Map(rows.map((row) => [row, column.by(row)]));
  const compare = (a, b) => a < b ? -1 : a > b ? 1 : 0;
  visible = rows.filter((row) => !wanted || wanted(row.name));
  const total = (row) => rank(figure("total")(row));
  visible.sort((a, b) => sign * compare(keys.get(a), keys.get(b))
    || compare(total(b), total(a)) || compare(a.name, b.name));
  heads.forEach((head, id) => {
    if (id === order.id) head.setAttribute("aria-sort", order.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
  $("list").scrollTop = 0;
  drawRows();
};

const drawRows = (measured = false) => {
  const { scrollTop, clientHeight } = $("list");
  const first = Math.max(0, Math.floor(scrollTop / height) - 10);
  const last = Math.min(visible.length, first + Math.ceil(clientHeight / height) + 30);
  const spacer = (rows) => {
    // Over one column only: some are hidden in narrow windows, and a span would bring theirs back.
    const cell = make("td", { style: `height:${rows * height}px` });
    return make("tr", { className: "spacer", ariaHidden: "true" }, cell);
  };
  const body = $("functions").tBodies[0];
  body.replaceChildren();
  if (first > 0) body.append(spacer(first));
  for (let at = first; at < last; at++) {
    const row = visible[at], line = make("tr", { tabIndex: 0 });
    line.dataset.row = row.at;
    if (row.at >= 0 && row.at === chosen) line.className = "chosen";
    for (const column of COLUMNS) {
      const className = `${column.left ? "left " : ""}${column.style ?? ""}`;
      const cell = make("td", { className }, column.cell(row));
      if (column.left) cell.title = cell.textContent;
      line.append(cell);
    }
    body.append(line);
  }
  if (last < visible.length) body.append(spacer(visible.length - last));
  $("functions").ariaRowCount = visible.length;
  // Fonts of other sizes make other rows.
  const real = body.querySelector("tr[data-row]")?.getBoundingClientRect().height;
  if (!measured && real && Math.abs(real - height) > 0.1) {
    height = real;
    drawRows(true);
  }
};
$("list").onscroll = () => drawRows();
const rowFrom = (event) => Number(event.target.closest("tr[data-row]")?.dataset.row ?? -1);
$("functions").tBodies[0].onclick = (event) => rowFrom(event) >= 0 && choose(rowFrom(event));
$("functions").tBodies[0].onkeydown = (event) => {
  if (event.key === "Enter" && rowFrom(event) >= 0) choose(rowFrom(event));
};

// The graph: nodes in preorder, with their depths; a node's time is its own and its callees'.
const tree = data.tree, nodes = tree.depth.length;
const whole = tree.whole, begins = new Float64Array(nodes);
const parent = new Int32Array(nodes).fill(-1), end = new Int32Array(nodes);
{
  const open = [], used = new Float64Array(nodes);
  for (let at = 0; at <= nodes; at++) {
    while (open.length > (at < nodes ? tree.depth[at] : 0)) end[open.pop()] = at;
    if (at === nodes) break;
    const up = open.at(-1) ?? -1;
    parent[at] = up;
    if (up >= 0) {
      begins[at] = begins[up] + used[up];
      used[up] += whole[at];
    }
    open.push(at);
  }
}
const nameOfNode = (at) => {
  const frame = tree.frame[at];
  return frame < 0 ? `all ${data.kind} time` : frame < size ? all.name[frame] : data.others[frame - size][0];
};
const hue = (at) => {
  const frame = tree.frame[at];
  if (frame < 0 || frame >= size) return 220;
  let hash = 0;
  for (const letter of all.name[frame]) hash = (hash * 31 + letter.charCodeAt(0)) % 997;
  return ((all.module[frame] + 1) * 137 + 250 + hash % 34) % 360;
};
let zoomed = 0, icicle = false;
const FRAME = 19;

const drawFrames = () => {
  const room = $("frames").clientWidth, holder = document.createDocumentFragment();
  if (!nodes) {
    $("graph").hidden = true;
    return;
  }
  const from = begins[zoomed], scale = room / Math.max(whole[zoomed], 1e-9);
  let deepest = 0;
  const drawn = [];
  for (let up = parent[zoomed]; up >= 0; up = parent[up]) drawn.push([up, 0, room, "above"]);
  for (let at = zoomed; at < end[zoomed];) {
    const width = whole[at] * scale;
    if (width < 1.5 && at !== zoomed) {
      at = end[at];
      continue;
    }
    drawn.push([at, (begins[at] - from) * scale, width, width < 24 ? "tiny" : ""]);
    at++;
  }
  for (const [at] of drawn) deepest = Math.max(deepest, tree.depth[at]);
  for (const [at, left, width, style] of drawn) {
    const level = icicle ? tree.depth[at] : deepest - tree.depth[at];
    const frame = make("div", { className: `frame ${style}` });
    frame.style.cssText =
      `left:${left.toFixed(1)}px;width:${width.toFixed(1)}px;top:${level * FRAME}px;--h:${hue(at)}`;
    frame.dataset.node = at;
    if (width >= 24) frame.textContent = nameOfNode(at);
    if (wanted?.(nameOfNode(at))) frame.classList.add("found");
    if (tree.frame[at] === chosen) frame.classList.add("chosen");
    holder.append(frame);
  }
  $("frames").replaceChildren(holder);
  $("frames").style.height = `${(deepest + 1) * FRAME}px`;
  $("frames").classList.toggle("searching", Boolean(wanted));
  $("out").disabled = zoomed === 0;
};
const toRoot = () => {
  $("graph").scrollTop = icicle ? 0 : $("graph").scrollHeight;
};
const zoom = (at) => {
  zoomed = at;
  drawFrames();
  toRoot();
};
const nodeFrom = (event) => Number(event.target.closest(".frame")?.dataset.node ?? -1);
$("frames").onclick = (event) => {
  const at = nodeFrom(event);
  if (at < 0) return;
  if (tree.frame[at] >= 0 && tree.frame[at] < size) choose(tree.frame[at]);
  zoom(at);
};
$("frames").onmousemove = (event) => {
  const at = nodeFrom(event), tip = $("tip");
  tip.hidden = at < 0;
  if (at < 0) return;
  const part = percent(whole[at] / Math.max(whole[0], 1e-9));
  const of = `${time(whole[at])} ${data.kind}, ${part} of all; of its own ${time(tree.own[at])}`;
  tip.replaceChildren(make("b", {}, nameOfNode(at)), make("br"), of);
  tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${event.clientY + 18}px`;
};
$("frames").onmouseleave = () => $("tip").hidden = true;

// One function.
const callees = new Map();
all.callers.forEach((callers, callee) => callers?.forEach(([caller, samples, part]) => {
  if (!callees.has(caller)) callees.set(caller, []);
  callees.get(caller).push([callee, samples, part]);
}));
const link = (at, name) => {
  const go = () => choose(at);
  const key = (event) => event.key === "Enter" && choose(at);
  return make("a", { textContent: name, tabIndex: 0, role: "button", onclick: go, onkeydown: key });
};
const table = (titles, lines) => {
  const head = make("tr", {}, ...titles.map((title) => make("th", { className: "left" }, title)));
  const body = lines.map((cells) => make("tr", {}, ...cells.map((cell, column) =>
    make("td", { className: column ? "" : "name" }, cell))));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
};
const SVG = "http://www.w3.org/2000/svg";
const draw = (tag, more, content) => {
  const element = document.createElementNS(SVG, tag);
  Object.entries(more).forEach(([name, value]) => element.setAttribute(name, value));
  if (content) element.textContent = content;
  return element;
};

// Ten bars a decade of time; both axes are logarithmic.
const histogram = (bars, at) => {
  const [wide, high, left, low] = [420, 150, 34, 130];
  const [first, last] = [bars[0][0], bars.at(-1)[0] + 1];
  const from = Math.floor(first / 10) * 10, to = Math.max(Math.ceil(last / 10) * 10, from + 10);
  const x = (step) => left + (wide - left - 6) * (step - from) / (to - from);
  const most = Math.max(...bars.map(([, calls]) => calls), 1);
  const top = Math.log10(Math.max(most, 10)) + .1;
  const y = (calls) => low - (low - 12) * (Math.log10(Math.max(calls, .5)) + .31) / (top + .31);
  const svg = draw("svg", { class: "histogram", viewBox: `0 0 ${wide} ${high}`, role: "img" });
  svg.append(draw("title", {}, `Histogram of ${all.name[at]}: calls by wall-clock time`));
  for (let ten = 0; ten <= top; ten += Math.ceil(top / 5)) {
    svg.append(draw("line", { class: "axis", x1: left, x2: wide, y1: y(10 ** ten), y2: y(10 ** ten) }));
    svg.append(draw("text", { x: left - 4, y: y(10 ** ten) + 3, "text-anchor": "end" }, count(10 ** ten)));
  }
  for (let step = from; step <= to; step += 10) {
    svg.append(draw("line", { class: "axis", x1: x(step), x2: x(step), y1: 12, y2: low }));
    const label = time(10 ** (step / 10)).replace(/\.0+ /, " ");
    const anchor = step === to ? "end" : step === from ? "start" : "middle";
    svg.append(draw("text", { x: x(step), y: low + 14, "text-anchor": anchor }, label));
  }
  const floor = all.floor?.[at];
  if (floor > 10 ** (from / 10)) {
    const width = Math.min(x(10 * Math.log10(floor)), wide) - left;
    const box = draw("rect", { class: "floor", x: left, y: 12, width, height: low - 12 });
    box.append(draw("title", {}, `below ${time(floor)} times cannot be told from the cost of measuring`));
    svg.append(box);
  }
  for (const [step, calls] of bars) {
    const width = Math.max(x(step + 1) - x(step) - 1, 1);
    const bar = draw("rect", { class: "count", x: x(step), y: y(calls), width, height: Math.max(low - y(calls), 1) });
    const range = `${time(10 ** (step / 10))} … ${time(10 ** ((step + 1) / 10))}`;
    bar.append(draw("title", {}, `${range}: ${count(calls)} calls`));
    svg.append(bar);
  }
  for (const name of ["p50", "p99"]) {
    const known = value(all[name][at]);
    if (!(known > 0)) continue;
    const place = x(10 * Math.log10(known));
    if (place < left || place > wide) continue;
    svg.append(draw("line", { class: "mark", x1: place, x2: place, y1: 12, y2: low }));
    svg.append(draw("text", { x: place, y: 9, "text-anchor": "middle" }, name));
  }
  return svg;
};

const known = (at) => {
  const line = (title, column, write) => [title, shown(all[column][at], write)];
  return [
    ["self", `${shown(all.own[at], time)} (${marked(rows[at])})`],
    line("total", "total", time), line("wall", "wall", time), line("calls", "calls", count),
    line("mean", "mean", time), line("p50", "p50", time), line("p90", "p90", time),
    line("p99", "p99", time), line("p99.9", "p999", time), line("max", "max", time),
  ];
};
const slowCall = ([length, thread, when, inside]) => {
  const lines = inside.map(([at, calls, spent]) => [
    at < 0 ? "?" : link(at, all.name[at]), calls === 1 ? "1 call" : `${count(calls)} calls`,
    `${time(spent)} (${percent(Math.min(spent / Math.max(length, 1e-9), 1))})`,
  ]);
  const title = make("p", {}, make("b", {}, time(length)), ` thread ${thread}, at ${time(when)}`);
  return [title, lines.length ? table(["inside", "", ""], lines) : ""];
};

const choose = (at) => {
  chosen = at;
  const one = $("one"), row = rows[at];
  const close = () => {
    chosen = null;
    one.hidden = true;
    $("main").classList.remove("open");
    drawFrames();
    drawRows();
  };
  one.replaceChildren(
    make("button", { id: "close", type: "button", textContent: "Close", onclick: close }),
    make("h2", {}, all.name[at]),
    make("p", { className: "dim" }, [placeOf(row), moduleOf(row)].filter(Boolean).join(", ")),
    table(["", ""], known(at)),
  );
  const waiting = value(all.waiting[at]);
  one.append(make("h3", {}, "Running and waiting"));
  if (waiting === null || waiting === undefined) {
    one.append(make("p", { className: "dim" }, "Not known: nothing tells CPU time and wall-clock time apart."));
  } else {
    const mark = all.waiting[at][1] ?? "";
    const other = { "≤": "≥", "≥": "≤" }[mark] ?? mark;
    const key = (style, part) => [make("span", { className: "key", style: `background:var(--${style})` }), part];
    one.append(split(row), make("p", {}, ...key("run", `running ${other}${percent(1 - waiting)}`),
      ...key("wait", `waiting ${mark}${percent(waiting)}`)));
  }
  one.append(make("h3", {}, "Calls by wall-clock time (both axes logarithmic)"));
  const bars = all.bars[at];
  if (bars) one.append(histogram(bars, at));
  else {
    const cut = bars === 0 ? 
      "Left out to keep this page small: fastinst report --histogram shows it." : "No single call was timed.";
    one.append(make("p", { className: "dim" }, cut));
  }
  const slow = all.slow[at];
  if (slow?.length) one.append(make("h3", {}, "Slowest calls"), ...slow.flatMap(slowCall));
  const line = ([other, samples, part], whose) => {
    const whole = value(all.total[whose]);
    const spent = whole === null ? "-" : time(whole * part);
    return [link(other, all.name[other]), `${count(samples)} timed`, spent, percent(part)];
  };
  const from = [...(all.callers[at] ?? [])].sort((a, b) => b[2] - a[2]);
  const into = [...(callees.get(at) ?? [])].sort((a, b) =>
    b[2] * (value(all.total[b[0]]) ?? 0) - a[2] * (value(all.total[a[0]]) ?? 0));
  one.append(make("h3", {}, "Callers"), from.length
    ? table(["function", "calls", "total", "of its time"], from.map((arc) => line(arc, at)))
    : make("p", { className: "dim" }, "None is known."));
  one.append(make("h3", {}, "Callees"), into.length
    ? table(["function", "calls", "total", "of theirs"], into.map((arc) => line(arc, arc[0])))
    : make("p", { className: "dim" }, "None is known."));
  one.hidden = false;
  one.scrollTop = 0;
  location.replace(`#${encodeURIComponent(all.name[at])}`);
  $("main").classList.add("open");
  drawFrames();
  drawRows();
};

// Search: a part of a name, or a pattern between slashes.
const search = () => {
  const asked = $("search").value.trim(), pattern = /^\/(.+)\/?$/.exec(asked);
  let error = "";
  wanted = null;
  if (pattern && asked.length > 2) {
    try {
      const wish = new RegExp(pattern[1].replace(/\/$/, ""), "i");
      wanted = (name) => wish.test(name);
    } catch {
      error = "invalid pattern";
    }
  } else if (asked) {
    const part = asked.toLowerCase();
    wanted = (name) => name.toLowerCase().includes(part);
  }
  fill();
  drawFrames();
  const own = visible.reduce((sum, row) => sum + sure(row), 0);
  $("found").textContent = error || (wanted ? `${visible.length} of ${rows.length} rows, self ${percent(own)}` : "");
};
$("search").oninput = search;
$("tools").onsubmit = (event) => event.preventDefault();
$("turn").onclick = () => {
  icicle = !icicle;
  $("turn").textContent = icicle ? "Flame" : "Icicle";
  $("turn").ariaPressed = String(icicle);
  drawFrames();
  toRoot();
};
$("out").onclick = () => zoom(0);
const theme = (dark) => {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
};
$("theme").onclick = () => theme(document.documentElement.dataset.theme !== "dark");
onkeydown = (event) => {
  if (event.key === "/" && document.activeElement !== $("search")) {
    event.preventDefault();
    $("search").focus();
  } else if (event.key === "Escape") {
    $("search").value = "";
    zoomed = 0;
    search();
    toRoot();
  }
};
onresize = () => {
  drawFrames();
  drawRows();
};

theme(matchMedia("(prefers-color-scheme: dark)").matches);
$("summary").textContent = data.summary;
$("foot").replaceChildren(...data.foot.map((line) => make("p", {}, line)));
drawFrames();
toRoot();
fill();
// An address may name a function.
let asked = "";
try {
  asked = decodeURIComponent(location.hash.slice(1));
} catch { /* no name is written so */ }
const at = asked ? all.name.indexOf(asked) : -1;
if (at >= 0) choose(at);
// Since the page was asked for, in milliseconds.
document.documentElement.dataset.ready = String(Math.ceil(performance.now()));
})();
