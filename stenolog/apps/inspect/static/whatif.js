// The what-if bar: the request follows each change of a field. Without this file its button does the same.

const PAUSE = 60;  // milliseconds without a further change before the server is asked again, while it still counts
const form = document.getElementById("whatif");
if (form) start(form);

function start(form) {
  const sums = document.getElementById("whatif-sums"), panel = document.getElementById("panel");
  const notch = form.querySelector(".notches"), budget = form.elements.budget;
  let timer = 0, asking = null, isCounting = false;

  function asked() {
    return new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim()));
  }

  // Ask for the numbers, then for the request; a later change stops an earlier question, so the newest wins.
  async function show(both = true) {
    asking?.abort();
    asking = new AbortController();
    const query = asked(), { signal } = asking;
    form.classList.add("waiting");
    isCounting = true;
    try {
      sums.innerHTML = await (await fetch(`${form.dataset.sums}?${query}`, { signal })).text();  // every text is escaped
      isCounting = false;
      readNotches();
      if (both && panel && !sums.querySelector("[data-problem]")) {
        panel.innerHTML = await (await fetch(`${form.dataset.part}?${query}`, { signal })).text();
        history.replaceState(null, "", `?${query}`);
      }
    } catch (error) {
      if (error.name !== "AbortError") throw error;
      return;
    }
    form.classList.remove("waiting");
  }

  function later() {
    clearTimeout(timer);
    if (isCounting) timer = setTimeout(() => show(), PAUSE); else show();
  }

  // A slider over some shares of the real request's tokens; its last notch is no budget at all.
  let steps = [];
  function readNotches() {
    const written = sums.querySelector("[data-notches]")?.dataset.notches;
    if (!written) return;
    steps = written.split(",").map(Number);
    notch.max = steps.length;
    const [, amount, thousand] = /^\s*(\d+)\s*(k?)/i.exec(budget.value) ?? [];
    const now = steps.findIndex((step) => step >= amount * (thousand ? 1000 : 1));
    if (document.activeElement !== notch) notch.value = amount && now >= 0 ? now : steps.length;
    notch.hidden = false;
  }

  notch.min = 0;
  notch.addEventListener("input", (event) => {
    event.stopPropagation();
    budget.value = steps[+notch.value] ?? "";
    later();
  });
  form.addEventListener("input", later);
  form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  const isShown = Boolean(panel?.innerHTML.trim());
  if (sums.querySelector("[data-notches]") && isShown) readNotches(); else show(!isShown);
}
