
"use strict";
// Shows the log that stands in this page. Nothing is loaded, and every text is inserted as text.

const HEIGHT = 26, AROUND = 12, MOST_PARTS = 150, MOST_CHARACTERS = 20000, EVERY = 64;
const WHAT = ["kept", "reworded", "added"], LETTER = ["k", "r", "a"];
const byId = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is no element is a text. */
function make(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children.map((each) => (each instanceof Node ? each : plain(String(each)))));
  return made;
}

/** The text, with characters spelled out that are not seen or turn the direction of others. */
function plain(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (found) => "\\u" + found.charCodeAt(0).toString(16).padStart(4, "0"));
}

async function unpacked() {
  const letters = atob(byId("log").textContent.replace(/\s+/g, ""));
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at++) bytes[at] = letters.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** The log with what is asked of it: entries, and the requests rebuilt from their differences. */
class Log {
  constructor(data) {
    Object.assign(this, data);
    this.size = data.entries.kind.length;
    this.times = [];
    let time = 0;
    for (const step of data.entries.time) this.times.push((time += step));
    this.byLane = data.lanes.map(() => []);
    data.requests.forEach((request, number) => this.byLane[request[0]].push(number));
    for (const numbers of this.byLane) {
      numbers.sort((one, other) => data.requests[one][2] - data.requests[other][2] || one - other);
    }
    this.kept = new Map(); // now and then a request as a whole, from which the next ones are made
  }
  kind(at) { return this.entries.kinds[this.entries.kind[at - 1]]; }
  who(at) { return this.entries.whos[this.entries.who[at - 1]]; }
  parts(at) {
    const flat = this.entries.parts[at - 1], found = [];
    for (let nth = 0; nth < flat.length; nth += 2) found.push([flat[nth], flat[nth + 1]]);
    return found;
  }
  said(at) { return this.parts(at).map((part) => part[1]).join(" "); }
  /** What an entry says, the words before the thoughts. */
  words(at) {
    const parts = this.parts(at), pick = (isThought) => parts.filter((part) => (part[0] === "r") === isThought).map((part) => part[1]);
    return { head: this.entries.head[at - 1], said: pick(false), thoughts: pick(true) };
  }
  line(at) {
    const { head, said, thoughts } = this.words(at);
    return [head, ...said, ...thoughts].filter(Boolean).join(" ");
  }
  /** The numbers of a request's rows and omissions. */
  numbers(number) {
    if (this.last && this.last[0] === number) return this.last[1];
    const chain = [];
    let at = number;
    while (this.requests[at][7] && !this.kept.has(at) && !(this.last && this.last[0] === at)) chain.push(at--);
    let made = this.kept.get(at) || (this.last && this.last[0] === at ? this.last[1] : this.applied([[], []], at));
    while (chain.length) {
      const next = chain.pop();
      made = this.applied(made, next);
      if (next % EVERY === 0) this.kept.set(next, made);
    }
    this.last = [number, made];
    return made;
  }
  applied(before, number) {
    const [rowsFirst, rowsLast, rows, goneFirst, goneLast, gone] = this.requests[number].slice(8);
    const joined = (old, first, last, between) =>
      old.slice(0, first).concat(between, last ? old.slice(old.length - last) : []);
    return [joined(before[0], rowsFirst, rowsLast, rows), joined(before[1], goneFirst, goneLast, gone)];
  }
  from(row) {
    const found = this.rows.from[row];
    return Array.isArray(found) ? found : [found];
  }
  text(row) {
    const which = this.rows.text[row], said = this.from(row)[0];
    if (which > 0) return this.texts[which - 1];
    const own = said ? this.said(said) || this.entries.head[said - 1] : "";
    if (!which) return own;
    const [before, behind] = this.wraps[-1 - which];
    return before + own + behind;
  }
  /** The request of an agent that an entry answers, else the first one after it, else its last. */
  requestAt(lane, at) {
    const numbers = this.byLane[lane];
    const answers = numbers.find((number) => this.requests[number][3] === at);
    if (answers !== undefined) return answers;
    const next = numbers.find((number) => this.requests[number][2] >= at);
    return next === undefined ? numbers[numbers.length - 1] : next;
  }
  /** The parts of a request in their order, each omission before the first part of a later entry. */
  lines(number) {
    const [rows, gone] = this.numbers(number);
    const waiting = gone.slice().sort((one, other) => this.gone.first[one] - this.gone.first[other]);
    const lines = [];
    let message = -1;
    for (const row of rows) {
      const from = this.from(row), around = !this.rows.place[row] || this.roles[this.rows.role[row]] === "system";
      const first = around || !from.length ? 0 : Math.min(...from);
      while (waiting.length && this.gone.first[waiting[0]] < first) lines.push({ gone: waiting.shift() });
      if (this.rows.place[row] === 1) message++;
      lines.push({ row, message: this.rows.place[row] ? message + 1 : 0 });
    }
    return lines.concat(waiting.map((each) => ({ gone: each })));
  }
}

/** The page: a list of which only what is seen is there, and beside it an entry and a request. */
class View {
  constructor(log) {
    this.log = log;
    this.at = log.size;
    this.lane = 0;
    this.marks = new Map();
    const slider = make("input", { type: "range", id: "slider", min: 1, max: log.size, "aria-label": "Position" });
    const search = make("input", { type: "search", id: "search", placeholder: "Find (/)", "aria-label": "Find words" });
    const place = make("output", { id: "place", class: "number" });
    const list = make("div", { id: "list", tabindex: 0, role: "listbox", "aria-label": "Entries" },
      make("div", { id: "room" }), make("ul", { id: "rows", role: "presentation" }));
    const top = make("header", { id: "top" }, make("h1", { title: plain(log.title) }, log.title), slider, place, search);
    byId("page").append(top, make("main", { id: "two" }, list, make("section", { id: "side", tabindex: 0, "aria-label": "Request" })));
    byId("room").style.height = `${log.size * HEIGHT}px`;
    list.addEventListener("scroll", () => this.drawRows());
    list.addEventListener("click", (event) => {
      const row = event.target.closest("li");
      if (row) this.go(Number(row.dataset.at));
    });
    slider.addEventListener("input", () => this.go(Number(slider.value)));
    search.addEventListener("keydown", (event) => { if (event.key === "Enter") this.find(search.value); });
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("hashchange", () => this.read());
    addEventListener("resize", () => this.drawRows());
    byId("plain").remove();
    byId("page").hidden = false;
    this.read();
  }
  /** Go where the address says, such as #at=28&agent=coder. */
  read() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const lane = this.log.lanes.indexOf(asked.get("agent"));
    if (lane >= 0) this.lane = lane;
    this.show(Number(asked.get("at")) || this.log.size);
  }
  go(at, lane = this.lane) {
    at = Math.max(1, Math.min(this.log.size, at));
    const hash = `#at=${at}` + (this.log.lanes.length ? `&agent=${encodeURIComponent(this.log.lanes[lane])}` : "");
    if (hash === location.hash) return;
    history.replaceState(null, "", hash);
    this.lane = lane;
    this.show(at);
  }
  show(at) {
    this.at = Math.max(1, Math.min(this.log.size, at));
    byId("slider").value = this.at;
    byId("place").textContent = `${this.at} of ${this.log.size}`;
    this.drawSide();
    const list = byId("list"), y = (this.at - 1) * HEIGHT;
    if (y < list.scrollTop) list.scrollTop = y;
    else if (y + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = y + HEIGHT - list.clientHeight;
    this.drawRows();
  }
  drawRows() {
    const list = byId("list"), first = Math.max(1, Math.floor(list.scrollTop / HEIGHT) + 1 - AROUND);
    const last = Math.min(this.log.size, first + Math.ceil(list.clientHeight / HEIGHT) + 2 * AROUND);
    const rows = [];
    for (let at = first; at <= last; at++) rows.push(this.row(at));
    byId("rows").style.top = `${(first - 1) * HEIGHT}px`;
    byId("rows").replaceChildren(...rows);
  }
  row(at) {
    const kind = this.log.kind(at), mark = this.marks.get(at) || "";
    const future = at > this.view ? "future" : "";
    const names = { k: "kept", r: "reworded", a: "added", x: "left out" };
    return make("li", { "data-at": at, class: `${kind} ${mark} ${future}`, role: "option", "aria-selected": at === this.at },
      make("span", { class: "number", title: names[mark] || "" }, mark), make("span", { class: "number" }, at),
      make("span", { class: "kind" }, kind), make("span", { class: "who" }, this.log.who(at)),
      make("span", {}, this.log.line(at).slice(0, 300)));
  }
  drawSide() {
    const agents = make("p", {}, ...this.log.lanes.map((name, lane) => {
      const button = make("button", { type: "button", "aria-pressed": lane === this.lane }, name);
      button.addEventListener("click", () => this.go(this.at, lane));
      return button;
    }));
    this.marks = new Map();
    this.view = this.log.size;
    byId("side").replaceChildren(...this.entry(), agents, ...(this.log.lanes.length ? this.request() : []));
    byId("side").scrollTop = 0;
  }
  entry() {
    const log = this.log, at = this.at, more = log.entries.more[at - 1] || [];
    const [model, ms, input, output, cached, cost] = more;
    const facts = [
      new Date(log.times[at - 1]).toISOString().slice(0, 19).replace("T", " "),
      model ? log.entries.models[model - 1] : "",
      ms ? `${(ms / 1000).toFixed(1)} s` : "",
      input ? `${input} tokens in, ${cached} of them cached, ${output} out` : "",
      cost ? `$${(cost / 1e6).toFixed(4)}` : "",
    ].filter(Boolean).join(" · ");
    const kind = log.kind(at), { head, said, thoughts } = log.words(at);
    return [
      make("h2", { class: kind }, `${at} `, make("span", { class: "kind" }, kind), ` ${log.who(at)}`),
      make("p", { class: "dim" }, facts),
      this.text([head, ...said].filter(Boolean).join("\n")),
      ...(thoughts.length ? [this.text(thoughts.join("\n"), "dim")] : []),
    ];
  }
  request() {
    const log = this.log, number = log.requestAt(this.lane, this.at);
    if (number === undefined) return [make("p", {}, "This agent was never called.")];
    const [, api, view, answer, why, sha, same, , ...differences] = log.requests[number];
    const title = `Request for ${log.lanes[this.lane]} at ${view}`;
    if (!differences.length) return [make("h2", {}, title), make("p", {}, `It cannot be built here: ${log.reasons[why]}`)];
    this.view = view;
    const lines = log.lines(number), rows = log.numbers(number)[0];
    for (const line of lines) this.mark(line);
    const tokens = rows.reduce((sum, row) => sum + log.rows.in[row] + log.rows.more[row], 0);
    const proof = ["without a receipt, so rebuilt from what the log has", "the same as the receipt says", "not what the receipt says",
      "not provable: an entry of it was erased or lost, or another release built it"][same];
    const about = [
      answer ? `answered by ${answer}` : why >= 0 ? `not sent: ${log.reasons[why]}` : "would be sent next",
      `${log.apis[api]}, some ${tokens.toLocaleString("en")} tokens`, sha ? `sha256 ${sha}…, ${proof}` : proof,
    ].join(" · ");
    const list = make("ol", { id: "parts" });
    const draw = (from, upto) => lines.slice(from, upto).map((line) => this.part(line));
    const hidden = Math.max(0, lines.length - MOST_PARTS);
    list.append(...draw(hidden, lines.length));
    if (hidden) {
      const button = make("button", { type: "button" }, `${hidden} earlier parts`);
      button.addEventListener("click", () => button.closest("li").replaceWith(...draw(0, hidden)));
      list.prepend(make("li", {}, button));
    }
    return [make("h2", {}, title), make("p", { class: "dim" }, about), list];
  }
  mark(line) {
    const log = this.log;
    if (line.row !== undefined) {
      for (const at of log.from(line.row)) if (at) this.marks.set(at, LETTER[log.rows.what[line.row]]);
    } else {
      for (let at = log.gone.first[line.gone]; at <= log.gone.last[line.gone]; at++) if (!this.marks.has(at)) this.marks.set(at, "x");
    }
  }
  part(line) {
    const log = this.log;
    if (line.row === undefined) {
      const first = log.gone.first[line.gone], last = log.gone.last[line.gone];
      const [rule, does] = log.rules[log.gone.rule[line.gone]];
      return make("li", { class: first <= this.at && this.at <= last ? "x of" : "x" },
        make("p", {}, make("b", {}, "left out "), this.link(first), last > first ? "–" : "", last > first ? this.link(last) : "",
          ` ${rule}: ${does} `, make("span", { class: "number" }, `${log.gone.tokens[line.gone]} → 0`)),
        make("pre", {}, log.line(first).slice(0, 300)));
    }
    const row = line.row, from = log.from(row).filter(Boolean), [rule, does] = log.rules[log.rows.rule[row]];
    const before = log.rows.in[row], now = before + log.rows.more[row];
    const links = from.flatMap((at, nth) => (nth ? [", ", this.link(at)] : [this.link(at)]));
    return make("li", { class: LETTER[log.rows.what[row]] + (from.includes(this.at) ? " of" : "") },
      make("p", {}, make("span", { class: "number" }, line.message || "–"), ` ${log.roles[log.rows.role[row]]} `,
        make("b", {}, WHAT[log.rows.what[row]]), from.length ? " from " : " ", ...links, ` ${rule}: ${does} `,
        make("span", { class: "number" }, before === now ? `${now}` : `${before} → ${now}`)),
      this.text(log.text(row)));
  }
  /** A text; of a very long one the beginning, until somebody asks for the rest. */
  text(words, look = "") {
    const shown = make("pre", { class: look }, words.slice(0, MOST_CHARACTERS));
    if (words.length > MOST_CHARACTERS) {
      const button = make("button", { type: "button" }, `${(words.length - MOST_CHARACTERS).toLocaleString("en")} more characters`);
      button.addEventListener("click", () => shown.replaceChildren(plain(words)));
      shown.append(" ", button);
    }
    return shown;
  }
  link(at) { return make("a", { href: `#at=${at}&agent=${encodeURIComponent(this.log.lanes[this.lane])}` }, at); }
  find(words) {
    const wanted = words.toLowerCase();
    for (let step = 1; wanted && step <= this.log.size; step++) {
      const at = ((this.at - 1 + step) % this.log.size) + 1;
      if (this.log.line(at).toLowerCase().includes(wanted)) return this.go(at);
    }
  }
  nextError() {
    for (let at = this.at + 1; at <= this.log.size; at++) if (this.log.kind(at) === "error" || this.log.entries.head[at - 1].startsWith("✗")) return at;
    return this.at;
  }
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target === byId("search")) return;
    const places = { j: this.at + 1, k: this.at - 1, "]": this.at + 10, "[": this.at - 10, g: 1, G: this.log.size };
    if (event.key in places) this.go(places[event.key]);
    else if (event.key === "e") this.go(this.nextError());
    else if (event.key === "/") byId("search").focus();
    else return;
    event.preventDefault();
  }
}

unpacked().then((data) => new View(new Log(data))).catch((error) => {
  byId("note").textContent = `This browser cannot unpack the requests (${error}). This is the timeline.`;
});
