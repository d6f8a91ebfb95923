// A conversation in a file: what the page that is read asks a server for, answered from the log in the file.

const fetched = await (async () => {
  const MOST_PARTS = 150, MOST_CHARACTERS = 20000, EVERY = 64, SPARE_ROWS = 40;
  const WHAT = ["kept", "reworded", "added"];
  const main = document.getElementById("read");

  // An element with attributes and children; a child that is no element is a text.
  function make(tag, attributes, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children.map((each) => (each instanceof Node ? each : plain(String(each)))));
    return made;
  }

  // The text, with characters spelled out that are not seen or turn the direction of others.
  function plain(text) {
    return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
      (found) => "\\u" + found.charCodeAt(0).toString(16).padStart(4, "0"));
  }

  async function unpacked() {
    const letters = atob(document.getElementById("log").textContent.replace(/\s+/g, ""));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  const log = await unpacked();
  const said = (at) => log.entries[at - 1][0];
  const shownIn = (at) => at + log.shown[at - 1];

  // Where the address says, such as #at=28 or #of=scout&at=31.
  const hash = () => new URLSearchParams(location.hash.slice(1));
  const asked = hash(), workers = Object.keys(log.lists);
  main.dataset.of = encodeURIComponent(workers.includes(asked.get("of")) ? asked.get("of") : "");
  const of = decodeURIComponent(main.dataset.of);
  if (+asked.get("at")) main.dataset.at = +asked.get("at");
  if (of) {
    const back = make("a", { href: `#at=${shownIn(log.lists[of][0])}` }, "Back to the whole conversation");
    document.getElementById("left").prepend(make("p", {}, back, `: this is ${of}`));
    document.getElementById("marks").hidden = true;  // they are of the whole conversation
  }
  addEventListener("hashchange", () => {
    const now = hash();
    if (+now.get("entry")) return document.getElementById("panel").replaceChildren(whole(+now.get("entry")));
    if ((now.get("of") ?? "") !== of) return location.reload();
    go(+now.get("at") || 1, { isBack: true });
  });
  document.querySelector("[role=search]").addEventListener("submit", (event) => {
    event.preventDefault();
    const words = event.target.elements.q.value.toLowerCase();
    for (let step = 1; words && step <= log.entries.length; step++) {
      const at = ((state.at - 1 + step) % log.entries.length) + 1;
      if (made(log.entries[at - 1][1]).textContent.toLowerCase().includes(words)) return go(at, { isJump: true });
    }
  });

  // The requests of each agent, by their positions; each is the difference to the one before.
  const byLane = log.lanes.map(() => []), kept = new Map();
  log.requests.forEach((request, number) => byLane[request[0]].push(number));
  for (const numbers of byLane) numbers.sort((one, other) => log.requests[one][2] - log.requests[other][2] || one - other);

  // The numbers of a request's rows and omissions.
  function numbersOf(number) {
    const chain = [];
    let at = number;
    while (log.requests[at][7] && !kept.has(at)) chain.push(at--);
    let made = kept.get(at) ?? applied([[], []], at);
    while (chain.length) {
      const next = chain.pop();
      made = applied(made, next);
      if (next % EVERY === 0) kept.set(next, made);
    }
    return made;
  }

  function applied(before, number) {
    const [rowsFirst, rowsLast, rows, goneFirst, goneLast, gone] = log.requests[number].slice(8);
    const joined = (old, first, last, between) => old.slice(0, first).concat(between, last ? old.slice(old.length - last) : []);
    return [joined(before[0], rowsFirst, rowsLast, rows), joined(before[1], goneFirst, goneLast, gone)];
  }

  const from = (row) => [log.rows.from[row]].flat();

  function textOf(row) {
    const which = log.rows.text[row], first = from(row)[0], own = first ? said(first) : "";
    if (which > 0) return log.texts[which - 1];
    const [before, after] = which ? log.wraps[-1 - which] : ["", ""];
    return before + own + after;
  }

  // The parts of a request in their order, each omission before the first part of a later entry.
  function linesOf([rows, gone]) {
    const waiting = gone.toSorted((one, other) => log.gone.first[one] - log.gone.first[other]), lines = [];
    for (const row of rows) {
      const around = !log.rows.place[row] || log.roles[log.rows.role[row]] === "system";
      const first = around ? 0 : Math.min(...from(row).concat(from(row).length ? [] : 0));
      while (waiting.length && log.gone.first[waiting[0]] < first) lines.push({ gone: waiting.shift() });
      lines.push({ row });
    }
    return lines.concat(waiting.map((each) => ({ gone: each })));
  }

  const count = (number) => number.toLocaleString("en");
  const leads = (at) => make("a", { href: `#at=${at}`, "data-entry": at }, at);
  const spaced = (positions) => positions.flatMap((at) => [leads(at), " "]);

  function part({ row, gone }) {
    if (row === undefined) {
      const first = log.gone.first[gone], last = log.gone.last[gone], [rule, does] = log.rules[log.gone.rule[gone]];
      return make("li", { class: "part left-out" }, leads(first), last > first ? make("span", {}, "–", leads(last)) : "",
        " left out: ", make("b", {}, does || rule), ` · ${count(log.gone.tokens[gone])} tokens · ${said(first).slice(0, 300)}`);
    }
    const positions = from(row).filter(Boolean), [rule, does] = log.rules[log.rows.rule[row]], what = WHAT[log.rows.what[row]];
    const before = log.rows.in[row], now = before + log.rows.more[row];
    return make("li", { class: `part ${what}` },
      make("div", { class: "gutter" }, make("b", {}, log.roles[log.rows.role[row]]), " ", ...spaced(positions),
        make("span", { class: "does" }, does), " ", make("span", { class: "rule" }, `${what} by rule ${rule}`), " ",
        make("span", { class: "tokens" }, before === now ? `${count(now)} tokens` : `${count(before)} → ${count(now)} tokens`)),
      words(textOf(row)));
  }

  // A text; of a very long one the beginning, until somebody asks for the rest.
  function words(text) {
    const shown = make("pre", { class: "words", ...(text.length > 500 || text.split("\n").length > 13 ? { tabindex: 0 } : {}) }, text.slice(0, MOST_CHARACTERS));
    if (text.length > MOST_CHARACTERS) {
      const more = make("button", { type: "button" }, `${count(text.length - MOST_CHARACTERS)} characters more`);
      more.addEventListener("click", () => shown.replaceChildren(plain(text)));
      shown.append(" ", more);
    }
    return shown;
  }

  function whole(at) {
    const found = document.createDocumentFragment();
    found.append(make("h2", {}, `Entry ${at}`), words(said(at)));
    return found;
  }

  const answers = {
    piece({ first, until, count: most, of: whose = "" }) {
      const listed = log.lists[whose], wanted = Math.min(+(most ?? 12), 60);
      const shown = listed.includes(+first) || whose ? +first : shownIn(+first || 1);
      let place = listed.findLastIndex((at) => at <= shown), end = place + wanted;
      if (until) [place, end] = [listed.findIndex((at) => at >= +until) - wanted, listed.findIndex((at) => at >= +until)];
      place = Math.max(0, place);
      const inside = listed.slice(place, end).map((at) => log.entries[at - 1][1]).join("").replace(/^(<article[^>]*?) again"/, '$1"');
      return `<div class="piece" data-earlier="${place ? listed[place - 1] : 0}" data-later="${listed[end] ?? 0}">${inside}</div>`;
    },
    outline({ index, around, count: most }) {
      const row = log.outline.findLastIndex(([position]) => position <= +around);
      const first = around ? Math.max(0, row - Math.floor(most / 2)) : +(index ?? 0);
      const inside = log.outline.slice(first, first + +(most ?? SPARE_ROWS)).map((each) => each[1]).join("");
      return `<ol data-total="${log.outline.length}">${inside}</ol>`;
    },
    marks({ at }) {
      const list = document.getElementById("marks").cloneNode(true);
      for (const [kind, places] of Object.entries(log.marks)) {
        const sides = [["‹", places.findLast((each) => each < +at)], ["›", places.find((each) => each > +at)]];
        for (const [sign, to] of sides) {
          const led = list.querySelector(`[data-mark="${kind} ${sign}"]`);
          for (const [name, value] of [["href", to && `#at=${to}`], ["data-entry", to], ["tabindex", to ? null : -1]]) {
            if (value) led.setAttribute(name, value); else led.removeAttribute(name);
          }
        }
      }
      return list.innerHTML;
    },
    panel({ at, agent = "" }) {
      const found = document.createDocumentFragment(), lane = log.lanes.indexOf(agent), numbers = byLane[lane] ?? [];
      const number = numbers.find((each) => log.requests[each][2] >= +at) ?? numbers.at(-1);
      if (number === undefined) return found.append(make("p", { class: "dim" }, "No request to a model has this.")), found;
      const [, api, view, answer, why, sha, same, , ...differences] = log.requests[number];
      found.append(make("h2", {}, `What ${agent} ${answer ? "was" : "is"} sent at entry ${view}`));
      if (!differences.length) return found.append(make("p", {}, `It cannot be built here: ${log.reasons[why]}`)), found;
      const rebuilt = numbersOf(number), lines = linesOf(rebuilt);
      const tokens = rebuilt[0].reduce((sum, row) => sum + log.rows.in[row] + log.rows.more[row], 0);
      const proof = ["rebuilt from what the log has", "the same as was sent", "not what was sent",
        "cannot be proved: an entry of it was erased or lost, or another release built it"][same];
      const ends = answer ? ["answered at entry ", leads(answer)] : [why >= 0 ? `not sent: ${log.reasons[why]}` : "would be sent next"];
      found.append(make("p", { class: "dim facts" }, `format ${log.apis[api]} · some ${count(tokens)} tokens · `, ...ends,
        ` · ${sha ? `sha256 ${sha}…, ` : ""}${proof}`));
      const hidden = Math.max(0, lines.length - MOST_PARTS), list = make("ol", { class: "parts" }, ...lines.slice(hidden).map(part));
      if (hidden) {
        const button = make("button", { type: "button" }, `${hidden} earlier parts`);
        button.addEventListener("click", () => button.closest("li").replaceWith(...lines.slice(0, hidden).map(part)));
        list.prepend(make("li", { class: "fold" }, button));
      }
      found.append(list);
      return found;
    },
  };
  return async (address, parameters) => answers[address.split("/")[1]](parameters);
})();
