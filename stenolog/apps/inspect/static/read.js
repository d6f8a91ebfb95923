// A conversation that is read: pieces of it come and go, turns, keys, the request of the chosen entry, words.

import { fetched } from "./fetched.js";
import { isMeantElsewhere, isPlain } from "./inspector.js";
import { Rows } from "./rows.js";

const MOST = 60;  // entries that are in the page at once
const NEAR = 1200;  // pixels from an end at which the next piece is asked for

const main = document.getElementById("read");
const { root, name, link } = main.dataset, isFile = "file" in main.dataset, of = decodeURIComponent(main.dataset.of);
const state = { at: +main.dataset.at, head: +main.dataset.head };
const box = document.getElementById("text"), side = document.getElementById("side"), panel = document.getElementById("panel");
const ask = document.getElementById("ask"), found = document.getElementById("origins"), fresh = document.getElementById("new");
let asking = null, filling = false, noting = 0, resting = null, beside = 0, around = 0, place = null, chosen = null;

const asked = (page, parameters, signal) => fetched(`${root}/${page}/${name}`, parameters, signal);

function made(text) {
  if (text instanceof Node) return text;
  const template = document.createElement("template");
  template.innerHTML = text;  // the server escapes every text
  return template.content;
}

const items = () => [...box.querySelectorAll(":scope > .piece > .item")];
const item = (position) => box.querySelector(`:scope > .piece > .item[data-position="${position}"]`);
const pieces = () => [...box.querySelectorAll(":scope > .piece")];

async function piece(parameters, signal) {
  const text = await asked("piece", { at: state.at, ...(of && { of }), ...parameters }, signal);
  return text === null ? null : made(text).querySelector(".piece");
}

// Keep the page small, and what is looked at where it is.
function trim(end) {
  while (pieces().length > 2 && items().length > MOST) {
    const gone = end === "last" ? pieces().at(-1) : pieces()[0], height = gone.offsetHeight;
    gone.remove();
    if (end === "first") box.scrollTop -= height;
  }
}

async function fill() {
  if (filling) return;
  filling = true;
  for (let tries = 0; tries < 4; tries += 1) {
    const first = pieces()[0], last = pieces().at(-1);
    if (+last?.dataset.later && box.scrollHeight - box.scrollTop - box.clientHeight < NEAR) {
      const next = await piece({ first: last.dataset.later });
      if (!next || !last.isConnected) break;
      last.after(next);
      trim("first");
    } else if (+first?.dataset.earlier && box.scrollTop < NEAR) {
      const before = await piece({ until: items()[0].dataset.position });
      if (!before || !first.isConnected) break;
      first.before(before);
      box.scrollTop += before.offsetHeight;
      trim("last");
    } else break;
  }
  filling = false;
}

// A step is noted when it rests, since a browser takes few in a second.
function rest() {
  if (resting) history.replaceState(...resting);
  resting = null;
}

function note(isJump) {
  const query = new URLSearchParams({ at: state.at, ...(of && { of }) });
  const to = [{ at: state.at }, "", `${link}${isFile ? "" : "?"}${query}`];
  clearTimeout(noting);
  if (isJump) { rest(); history.pushState(...to); } else { resting = to; noting = setTimeout(rest, 100); }
  for (const each of document.querySelectorAll("[data-screen]")) each.href = `${root}/${each.dataset.screen}/${name}?at=${state.at}`;
}

// Choose an entry, fetch it where it is not in the page, and show the request that it answers.
export async function go(position, { isJump = false, isBack = false, stays = false, focuses = false } = {}) {
  state.at = position;
  asking?.abort();
  const { signal } = asking = new AbortController();
  let wanted = item(position);
  const isThere = Boolean(wanted);
  if (!isThere) {
    const next = await piece({ first: position, count: 8 }, signal);
    if (!next || signal.aborted) return;
    for (const each of pieces()) each.remove();
    fresh.before(next);
    wanted = item(position) ?? items()[0];
    box.scrollTop = 0;
  }
  if (!wanted) return;
  state.at = +wanted.dataset.position;
  for (const each of box.querySelectorAll(".item[aria-current]")) each.removeAttribute("aria-current");
  wanted.setAttribute("aria-current", "true");
  if (!stays) reveal(wanted);
  if (focuses) wanted.focus({ preventScroll: true });
  if (!isBack) note(isJump);
  // What is beside it waits until one rests: it costs the server more than the words.
  clearTimeout(beside);
  beside = setTimeout(() => { marks(signal); request(wanted, signal); }, 100);
  clearTimeout(around);
  if (isThere) settle(); else around = setTimeout(settle, 40);  // the next jump may come before
}

function settle() {
  around = 0;
  turn();
  fill();
}

function reveal(wanted) {
  const top = wanted.offsetTop, bottom = top + wanted.offsetHeight;
  if (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, top - 12);
}

async function request(chosenItem, signal) {
  const { view } = chosenItem.dataset, lane = decodeURIComponent(chosenItem.dataset.lane);
  place = { at: view, view, ...(lane && { agent: lane }) };
  if (ask) {
    ask.elements.at.value = view;
    ask.elements.agent.value = lane;
  }
  const text = await asked("panel", place, signal);
  if (text === null || signal.aborted) return;
  panel.replaceChildren(made(text));
  side.scrollTop = 0;
}

async function marks(signal) {
  const text = await asked("marks", { at: state.at, ...(of && { of }) }, signal);
  if (text === null || signal.aborted) return;
  const focused = document.activeElement?.dataset.mark;
  document.getElementById("marks").innerHTML = text;
  if (focused) document.querySelector(`[data-mark="${focused}"]`)?.focus();
}

// The turns: a list of which only what is in sight is in the page.
let turns;  // it asks `decorate` for its first rows already
turns = new Rows(document.getElementById("turns"), document.getElementById("outline"), +main.dataset.total,
  (parameters, signal) => asked("outline", parameters, signal), decorate);

function decorate(row) {
  if (+row.dataset.position === rowOf()) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
}

function rowOf() {
  const before = [...(turns?.byPosition.keys() ?? [])].filter((position) => position <= state.at);
  return before.length ? Math.max(...before) : 0;
}

async function turn() {
  await turns.show(state.at);
  turns.redecorate();
}

// Words: the entries that put those that are selected, in an entry or its request, into that request.
const NOT_SAID = ".output, .ends, .miss, p.words";  // what an answer's entry shows beside what the model wrote

function selected() {
  const words = getSelection().toString().trim();
  return words.length < 2 || !(box.contains(getSelection().anchorNode) || panel.contains(getSelection().anchorNode)) ? "" : words;
}

// The request in which selected words are looked for. `at` is after `view` only for what a model wrote.
function placeOf(range) {
  const common = range.commonAncestorContainer, element = common.closest ? common : common.parentElement;
  const own = element.closest(".item");
  if (!own) return place;
  const lane = decodeURIComponent(own.dataset.lane), { position, view } = own.dataset;
  const result = element.closest(".output")?.dataset.result ?? view;
  const isSaid = element.closest(".said") && !element.closest(NOT_SAID) && !range.cloneContents().querySelector(`${NOT_SAID}, .agent`);
  return { at: isSaid ? position : result, view: result, ...(lane && { agent: lane }) };
}

async function origins() {
  const written = ask.elements.words.value.trim();
  if (!written) return;
  const { words, where } = chosen?.written === written ? chosen : { words: written, where: place };
  found.textContent = "Looking…";
  const text = await asked("origins", { ...where, words });
  if (text !== null) found.innerHTML = text;  // the server escapes every text
}

function choose() {
  const words = selected().slice(0, 2000).trim();
  if (!words) return;
  const written = ask.elements.words.value = words.replace(/\s+/g, " ");  // a field would join two lines to one word
  chosen = { words, written, where: placeOf(getSelection().getRangeAt(0)) };
}

if (ask) {
  document.addEventListener("selectionchange", choose);
  for (const each of [box, panel]) each.addEventListener("mouseup", () => setTimeout(() => { if (selected()) origins(); }, 0));
  ask.addEventListener("submit", (event) => { event.preventDefault(); origins(); });
}

// Mark the words in an entry that is shown.
function highlight(element, words) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT), nodes = [];
  let text = "";
  while (walker.nextNode()) { nodes.push([text.length, walker.currentNode]); text += walker.currentNode.data; }
  const start = text.indexOf(words);
  if (start < 0 || !("highlights" in CSS)) return;
  const at = (offset) => { const [begin, node] = nodes.findLast(([each]) => each <= offset); return [node, offset - begin]; };
  const range = new Range();
  range.setStart(...at(start));
  range.setEnd(...at(start + words.length - 1));
  range.setEnd(range.endContainer, range.endOffset + 1);
  CSS.highlights.set("origin", new Highlight(range));
}

document.addEventListener("click", async (event) => {
  const entry = event.target.closest("[data-entry]"), row = of ? null : event.target.closest("#outline .row:not(.agent)");
  const to = entry ? +entry.dataset.entry : row ? +row.dataset.position : 0;
  if (!to || !isPlain(event)) return;
  event.preventDefault();
  if (!side.contains(entry)) return go(to, { isJump: true });
  await point(to);
  if (entry.dataset.words) highlight(box.querySelector(".item.shown") ?? box, entry.dataset.words);
});

// Show an entry that a request is made of, and keep the request.
async function point(position) {
  for (const each of box.querySelectorAll(".shown")) each.classList.remove("shown");
  const there = () => item(position) ?? box.querySelector(`details[open] .item[data-position="${position}"]`);
  if (!there()) {
    const next = await piece({ first: position, count: 8 });
    if (!next) return;
    for (const each of pieces()) each.remove();
    fresh.before(next);
  }
  const shown = there() ?? items()[0];
  state.shown = +shown.dataset.position;
  shown.classList.add("shown");
  reveal(shown);
  await fill();
}

box.addEventListener("click", (event) => {
  const own = event.target.closest(".item");
  if (!own || !isPlain(event) || event.target.closest("summary, a:not(.where), button") || selected()) return;
  event.preventDefault();
  if (own === item(own.dataset.position)) return go(+own.dataset.position, { stays: true });
  asking?.abort();  // an entry of a sub-agent that is opened here: only its request is shown
  request(own, (asking = new AbortController()).signal);
});

// What a sub-agent did comes when it is opened.
box.addEventListener("toggle", async (event) => {
  const { of: lane, first } = event.target.dataset;
  if (!lane || !event.target.open || event.target.querySelector(".piece")) return;
  const text = await asked("piece", { of: decodeURIComponent(lane), first, count: 60 });
  if (text !== null) event.target.append(made(text).querySelector(".piece, .error"));
}, true);

let waiting;
box.addEventListener("scroll", () => { waiting ??= requestAnimationFrame(() => { waiting = undefined; if (!around) fill(); }); });
for (const more of box.querySelectorAll(":scope > .more")) if (more.querySelector("a")) more.remove();

function step(steps) {
  const all = items(), at = all.findIndex((each) => +each.dataset.position === state.at);
  const next = all[Math.max(0, at + steps)];
  if (next) go(+next.dataset.position, { focuses: true });
}

async function turnBeside(steps) {
  await turns.show(state.at);
  const now = turns.byPosition.get(rowOf()), beyond = now && +now.dataset.position < state.at && steps < 0;
  const position = beyond ? rowOf() : turns.beside(rowOf(), steps);
  if (position) go(position, { isJump: true, focuses: true });
}

async function mark(kind, sign) {
  const to = document.querySelector(`[data-mark="${kind} ${sign}"][data-entry]`);
  if (to) go(+to.dataset.entry, { isJump: true, focuses: true });
}

const dialog = document.getElementById("keys");
const keys = {
  j: () => step(1), k: () => step(-1), "]": () => turnBeside(1), "[": () => turnBeside(-1),
  g: () => go(1, { isJump: true, focuses: true }), G: () => go(state.head, { isJump: true, focuses: true }),
  e: () => mark("error", "›"), E: () => mark("error", "‹"), w: () => { if (!ask) return; if (selected()) { choose(); origins(); } else ask.elements.words.focus(); },
  o: () => { const all = [...(item(state.at)?.querySelectorAll("details") ?? [])], opens = all.some((each) => !each.open); for (const each of all) each.open = opens; },
  "?": () => dialog.showModal(),
};
document.addEventListener("keydown", (event) => {
  if (isMeantElsewhere(event) || dialog.open || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

addEventListener("popstate", (event) => go(event.state?.at ?? state.at, { isBack: true }));

// The end while it grows: who is there sees what comes, others a button that leads there.
const tail = isFile ? null : new EventSource(`${root}/tail/${name}?after=${state.head}`);
tail?.addEventListener("head", async (event) => {
  const isAtEnd = !+pieces().at(-1)?.dataset.later && box.scrollHeight - box.scrollTop - box.clientHeight < 100;
  state.head = +event.data;
  turns.fill({ again: true });
  if (isAtEnd) {
    const isFirst = !items().length, last = pieces().at(-1);
    const next = await piece({ first: last.querySelector(".item")?.dataset.position ?? 1, count: 60 });
    if (next) { last.replaceWith(next); box.scrollTop = box.scrollHeight; }
    if (isFirst && items().length) {
      box.querySelector(":scope > .more")?.remove();
      go(+items().at(-1).dataset.position);
    }
  }
  fresh.hidden = isAtEnd;
  fresh.textContent = `new: up to ${state.head}`;
});
fresh.addEventListener("click", () => { fresh.hidden = true; go(state.head, { isJump: true }); });

history.replaceState({ at: state.at }, "");
const begun = item(state.at) ?? items().at(-1);
if (isFile) {
  go(state.at, { isBack: true });
} else {
  if (begun) {
    reveal(begun);
    request(begun, (asking = new AbortController()).signal);
  }
  settle();
}
