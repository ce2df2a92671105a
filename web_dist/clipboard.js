// Copying text, also where the browser gives no clipboard API (plain http on the local network).

/** @returns {Promise<boolean>} whether it worked */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  area.setAttribute("aria-hidden", "true");
  const focused = document.activeElement;
  // Under a modal dialog nothing outside of it can be selected.
  (document.querySelector("dialog:modal") ?? document.body).append(area);
  area.select();
  const worked = document.execCommand("copy");
  area.remove();
  focused?.focus({ preventScroll: true });
  return worked;
}
