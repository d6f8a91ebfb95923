// The end of a conversation while it grows: who stands at the end goes on with it.

export function follow({ root, name, state, rows, box, go, grown, button }) {
  let seen = state.head, follows = state.at === state.head, isOpen = false, moves = false, later;

  function tell() {
    button.hidden = false;
    const missed = state.head - seen;
    button.className = !isOpen ? "waiting" : follows ? "" : missed ? "paused" : "quiet";
    button.textContent = !isOpen ? "○ waiting" : follows ? "● live" : `❙❙ paused${missed ? `, ${missed} new` : ""}`;
    button.title = follows ? "The page follows the conversation" : "Go to the end, and follow it";
  }

  // The place has changed: by a step, or because somebody scrolls.
  function told() {
    if (moves) return;
    follows = state.at === state.head && rows.isAtEnd;
    if (state.at === state.head) seen = state.head;
    tell();
  }

  box.addEventListener("scroll", () => {
    const now = state.at === seen && rows.isAtEnd;
    if (moves || now === follows) return;
    follows = now;
    if (follows && state.head > seen) { seen = state.head; go(state.head); }
    tell();
  });
  button.addEventListener("click", () => { seen = state.head; follows = true; go(state.head, { isJump: true }); });

  const tail = new EventSource(`${root}/tail/${name}?after=${state.head}`);
  tail.addEventListener("open", () => { isOpen = true; tell(); });
  tail.addEventListener("error", () => { isOpen = false; tell(); });
  tail.addEventListener("head", async (event) => {
    const follow = follows;
    state.head = +event.data;
    document.getElementById("slider").max = state.head;
    document.querySelector("#place output").value = `${state.at} / ${state.head}`;
    if (follow) seen = state.head;
    await rows.fill({ again: true });
    if (follow && follows) {
      moves = true;
      await go(state.head);
      box.scrollTop = box.scrollHeight;
      moves = false;
    }
    tell();
    clearTimeout(later);
    later = setTimeout(grown, 500);
  });
  return { told };
}
