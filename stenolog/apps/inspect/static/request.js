// A button beside each form of a request that puts it on the clipboard. Without this file the links give files.

document.documentElement.classList.add("scripted");
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const before = button.textContent;
  try {
    const answer = await fetch(button.dataset.copy);
    if (!answer.ok) throw new Error(await answer.text());
    await navigator.clipboard.writeText(await answer.text());
    button.textContent = "✓";
  } catch {
    button.textContent = "✗";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
});
