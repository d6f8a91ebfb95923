// The list of entries, of which only the rows in sight and some around them are in the page.

const SPARE = 12;  // rows beyond those in sight

export class Rows {
  // `fetched(parameters, signal)` gives the rows of the server as a fragment; `decorate(row)` what the page adds to each.
  constructor(box, list, total, fetched, decorate) {
    Object.assign(this, { box, list, fetched, decorate });
    this.byPosition = new Map();
    this.height = list.querySelector(".row")?.getBoundingClientRect().height || 26;
    for (const more of box.querySelectorAll(".more")) more.remove();
    box.classList.add("windowed");
    this.resize(total);
    this.adopt([...list.children]);
    box.addEventListener("scroll", () => {
      this.waiting ??= requestAnimationFrame(() => { this.waiting = undefined; this.fill(); });
    });
    new ResizeObserver(() => this.fill()).observe(box);
  }

  resize(total) {
    this.total = total;
    this.list.style.height = `${total * this.height}px`;
  }

  // The rows take their places. A row stays the node that it is as long as it is there: no click hits another one.
  adopt(rows) {
    const kept = new Set();
    for (const row of rows) {
      const position = +row.dataset.position, old = this.byPosition.get(position);
      kept.add(position);
      if (old === row) { this.place(row); continue; }
      if (old && old.innerHTML === row.innerHTML) { this.place(old); continue; }
      if (old) {
        old.dataset.index = row.dataset.index;
        if (row.dataset.pair) old.dataset.pair = row.dataset.pair;
        old.className = row.className;
        old.replaceChildren(...row.childNodes);
        this.place(old);
      } else {
        this.byPosition.set(position, row);
        this.place(row);
      }
    }
    for (const [position, row] of this.byPosition) {
      if (!kept.has(position)) { row.remove(); this.byPosition.delete(position); }
    }
    const inOrder = [...this.byPosition.values()].sort((a, b) => a.dataset.index - b.dataset.index);
    inOrder.forEach((row, nth) => { if (this.list.children[nth] !== row) this.list.insertBefore(row, this.list.children[nth] ?? null); });
    this.first = inOrder.length ? +inOrder[0].dataset.index : 0;
    this.last = inOrder.length ? +inOrder.at(-1).dataset.index : -1;
  }

  place(row) {
    row.style.top = `${row.dataset.index * this.height}px`;
    this.decorate(row);
  }

  get inSight() {
    const first = Math.floor(this.box.scrollTop / this.height);
    return { first, count: Math.ceil(this.box.clientHeight / this.height) + 1 };
  }

  get isAtEnd() {
    return this.box.scrollTop + this.box.clientHeight >= this.total * this.height - this.height;
  }

  // Ask for the rows in sight, where they are not all there.
  async fill({ again = false } = {}) {
    const { first, count } = this.inSight, last = Math.min(this.total, first + count) - 1;
    if (!again && first >= this.first && last <= this.last) return;
    await this.load({ index: Math.max(0, first - SPARE), count: count + 2 * SPARE });
    const now = this.inSight;
    if (now.first < this.first || Math.min(this.total, now.first + now.count) - 1 > this.last) this.fillSoon();
  }

  fillSoon() {
    clearTimeout(this.later);
    this.later = setTimeout(() => this.fill(), 50);
  }

  async load(parameters) {
    this.asking?.abort();
    const { signal } = this.asking = new AbortController(), made = document.createElement("template");
    const text = await this.fetched(parameters, signal);
    if (text === null || signal.aborted) return false;  // a later question has overtaken this one
    made.innerHTML = text;  // the server escapes every text
    const list = made.content.querySelector("ol");
    if (!list) return false;
    this.resize(+list.dataset.total);
    this.adopt([...list.children]);
    return true;
  }

  // Show the row of a position, or the one before it where that is not in the list.
  async show(position) {
    this.wanted = position;
    for (let tries = 0; tries < 3 && !this.byPosition.has(position); tries += 1) {
      const isThere = await this.load({ around: position, count: this.inSight.count + 2 * SPARE });
      if (this.wanted !== position) return;
      if (isThere) break;  // else another question was in the way
    }
    const row = this.byPosition.get(position) ?? [...this.byPosition.values()].findLast((each) => +each.dataset.position <= position);
    if (!row) return;
    const top = row.dataset.index * this.height, { scrollTop, clientHeight } = this.box;
    if (top < scrollTop + this.height || top > scrollTop + clientHeight - 2 * this.height) {
      const isNear = Math.abs(top - scrollTop - clientHeight / 2) < clientHeight;
      const up = top < scrollTop + this.height;
      this.box.scrollTop = !isNear ? top - clientHeight / 2 : up ? top - this.height : top - clientHeight + 2 * this.height;
    }
  }

  redecorate() {
    for (const row of this.byPosition.values()) this.decorate(row);
  }

  // The position `steps` rows on from the row of another, where rows are left out; null where it is not known.
  beside(position, steps) {
    const row = this.byPosition.get(position);
    if (!row) return null;
    const wanted = +row.dataset.index + steps;
    const found = [...this.byPosition.values()].find((each) => +each.dataset.index === wanted);
    return found ? +found.dataset.position : null;
  }
}
