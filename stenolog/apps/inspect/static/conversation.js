// The page of a conversation: keys, slider, and the end of it while it grows.

import { fetched } from "./fetched.js";
import { isMeantElsewhere, isPlain } from "./inspector.js";
import { follow } from "./live.js";
import { Rows } from "./rows.js";

const main = document.getElementById("conversation");
const { root, name } = main.dataset;
const state = { at: +main.dataset.at, head: +main.dataset.head, agent: main.dataset.agent };
const filters = new URLSearchParams(main.dataset.filters);
const slider = document.getElementById("slider"), output = slider.form.querySelector("output");
const box = document.getElementById("list"), panel = document.getElementById("panel"), card = document.getElementById("card");
let marks = readMarks(), asking = null, noting = 0, resting = null;

let rows;  // it asks `decorate` for its first rows already
rows = new Rows(box, document.getElementById("rows"), +main.dataset.total, fetchRows, decorate);

function ask(page, parameters, signal) {
  return fetched(`${root}/${page}/${name}`, { ...parameters, ...(state.agent && { agent: state.agent }) }, signal);
}

function fetchRows(parameters, signal) {
  return ask("rows", { ...Object.fromEntries(filters), at: state.at, ...parameters }, signal);
}

// What the request of the agent makes of each position, as runs: "kept 1-4,6;left-out 7-40".
function readMarks() {
  const written = document.getElementById("band")?.dataset.runs ?? "";
  return written.split(";").filter(Boolean).flatMap((piece) => {
    const [mark, spans] = piece.split(" ");
    return spans.split(",").map((span) => { const [first, last] = span.split("-"); return [+first, +(last ?? first), mark]; });
  });
}

function decorate(row) {
  const position = +row.dataset.position, current = position === state.at;
  const mark = marks.find(([first, last]) => first <= position && position <= last)?.[2];
  row.classList.toggle("future", position > state.at);
  for (const each of ["kept", "reworded", "added", "left-out"]) row.classList.toggle(`mark-${each}`, each === mark);
  row.classList.toggle("pair", +row.dataset.pair === state.at || pairOfCurrent() === position);
  if (current) row.setAttribute("aria-current", "true"); else row.removeAttribute("aria-current");
}

function pairOfCurrent() {
  return +(rows?.byPosition.get(state.at)?.dataset.pair ?? 0);
}

function address(at = state.at) {
  const query = new URLSearchParams({ at, ...(state.agent && { agent: state.agent }) });
  for (const [key, value] of filters) query.set(key, value);
  return `${root}/c/${name}?${query}`;
}

// Note the place in the history: that of a step when the slider rests, since a browser takes few in a second.
function note(isJump) {
  const place = [{ at: state.at, agent: state.agent }, "", address()];
  if (isJump) { noteStep(); history.pushState(...place); return; }
  resting = place;
  clearTimeout(noting);
  noting = setTimeout(noteStep, 100);
}

function noteStep() {
  if (resting) history.replaceState(...resting);
  resting = null;
}

// Show the conversation at another position. A jump is a place that Back leads back to; a step is none.
export async function go(at, { isJump = false, isBack = false } = {}) {
  at = Math.min(Math.max(1, at), state.head);
  state.at = at;
  slider.value = at;
  output.value = `${at} / ${state.head}`;
  const query = new URLSearchParams({ at, ...(state.agent && { agent: state.agent }) });
  for (const link of document.querySelectorAll("[data-screen]")) link.href = `${root}/${link.dataset.screen}/${name}?${query}`;
  linkErrors();
  if (isBack) resting = null; else note(isJump);
  rows.redecorate();
  live.told();
  side();  // the rows do not wait for the request
  await rows.show(at);
}

// The entry and the request at the position; each is shown when it comes, and what is late is stopped.
async function side() {
  asking?.abort();
  const { signal } = asking = new AbortController();
  const shown = ask("card", { at: state.at }, signal).then((text) => { if (text !== null && !signal.aborted) card.innerHTML = text; });
  await Promise.all([shown, sent(signal)]);
}

async function sent(signal) {
  await ask("panel", { at: state.at }, signal).then((text) => {
    if (text === null || signal.aborted) return;
    panel.innerHTML = text;  // the server escapes every text
    const band = panel.querySelector("#band");
    if (band) document.querySelector(".track .band").replaceWith(band);
    marks = readMarks();
    rows.redecorate();
  });
}

async function marksBelow() {
  const text = await ask("ticks", {});
  if (text) document.getElementById("ticks").outerHTML = text;
  linkErrors();
}

function errors() {
  const found = document.getElementById("ticks")?.dataset.errors;
  return found ? found.split(" ").map(Number) : [];
}

function errorBeside(which) {
  return which === "before" ? errors().findLast((position) => position < state.at) : errors().find((position) => position > state.at);
}

function linkErrors() {
  for (const link of document.querySelectorAll("[data-error]")) {
    const position = errorBeside(link.dataset.error);
    if (position) link.href = address(position); else link.removeAttribute("href");
    link.onclick = (event) => { if (position && isPlain(event)) { event.preventDefault(); go(position, jump); } };
  }
}

const live = follow({ root, name, state, rows, box, go, grown: marksBelow, button: document.getElementById("live") });

slider.addEventListener("input", () => go(+slider.value));
slider.addEventListener("change", () => history.pushState({ at: state.at, agent: state.agent }, "", address()));
slider.form.addEventListener("submit", (event) => event.preventDefault());
for (const select of document.querySelectorAll("#filters select")) select.addEventListener("change", () => select.form.requestSubmit());
document.getElementById("filters").addEventListener("submit", (event) => { event.target.elements.at.value = state.at; });

box.addEventListener("click", (event) => {
  const row = event.target.closest(".row");
  if (!row || !isPlain(event) || event.target.closest(".fork")) return;
  event.preventDefault();
  go(+row.dataset.position, { isJump: true });
});

document.getElementById("side").addEventListener("click", (event) => {
  const asked = event.target.closest(".asked-by");
  if (asked && isPlain(event)) { event.preventDefault(); return whoAsked(asked); }
  const entry = event.target.closest("[data-entry]"), agent = event.target.closest(".agents [data-agent]");
  if (!isPlain(event) || !(entry || agent)) return;
  event.preventDefault();
  if (entry?.closest("#panel")) return point(+entry.dataset.entry);
  if (entry) return go(+entry.dataset.entry, { isJump: true });
  state.agent = agent.dataset.agent;
  for (const each of document.querySelectorAll("[data-agent]")) {
    if (each === agent) each.setAttribute("aria-current", "true"); else each.removeAttribute("aria-current");
  }
  go(state.at, { isJump: true });
});

// Show in the panel who asked for a call; what is late is stopped, as the request is.
async function whoAsked(link) {
  asking?.abort();
  const { signal } = asking = new AbortController();
  const text = await ask("asked", { at: new URL(link.href).searchParams.get("at") }, signal);
  if (text === null || signal.aborted) return;
  panel.innerHTML = text;  // the server escapes every text
}

// Point at the row of an entry, and stay where one is.
async function point(position) {
  for (const row of box.querySelectorAll(".shown")) row.classList.remove("shown");
  await rows.show(position);
  rows.byPosition.get(position)?.classList.add("shown");
}

addEventListener("popstate", (event) => {
  const query = new URLSearchParams(location.search);
  state.agent = event.state?.agent ?? query.get("agent") ?? state.agent;
  go(event.state?.at ?? +(query.get("at") ?? state.head), { isBack: true });
});

function step(steps) {
  go(rows.beside(state.at, steps) ?? state.at + steps);
}

const jump = { isJump: true }, dialog = document.getElementById("keys");
const keys = {
  j: () => step(1), k: () => step(-1), ArrowDown: () => step(1), ArrowUp: () => step(-1),
  "]": () => step(10), "[": () => step(-10), g: () => go(1, jump), G: () => go(state.head, jump),
  e: () => { const next = errorBeside("after") ?? errors()[0]; if (next) go(next, jump); },
  E: () => { const before = errorBeside("before") ?? errors().at(-1); if (before) go(before, jump); },
  "?": () => dialog.showModal(),
};
document.addEventListener("keydown", (event) => {
  const isArrow = event.key.startsWith("Arrow");
  if (isMeantElsewhere(event) || dialog.open || (isArrow && (event.target === slider || event.target.closest("#side")))) return;
  if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
});

history.replaceState({ at: state.at, agent: state.agent }, "");
linkErrors();
rows.show(state.at).then(() => rows.fill());
if ("later" in panel.dataset) sent((asking = new AbortController()).signal);
