// The scrolling conversation. Follows the newest text only while the reader is at the end, or has just sent something,
// and never while a selection is being dragged.
import { html } from "../html.js";
import { isPending, isRestoring, isRunning, messages } from "../state/conversation.js";
import { isAtEnd } from "../state/view.js";
import { useEffect, useRef } from "../vendor/preact-hooks.js";
import { Answer } from "./answer.js";
import { returnToComposer } from "./composer.js";
import { EmptyState } from "./empty_state.js";
import { Icon } from "./icons.js";
import { useFirstShown } from "./newest_first.js";
import { OtherTurn } from "./tool_turns.js";
import { UserMessage } from "./user_message.js";

// Closer to the end than this counts as being there: about one line of text.
const END_ZONE_PX = 32;

export function Transcript() {
  const scroller = useRef(null);
  const column = useRef(null);
  const list = messages.value;
  const firstShown = useFirstShown(list.length);
  const jump = () => {
    jumpToNewest();
    returnToComposer();
  };

  useEffect(() => followEnd(scroller.current, column.current), []);

  // Another chat is shown from its end, an empty one from its beginning.
  useEffect(() => {
    isAtEnd.value = true;
    scroller.current.scrollTop = messages.peek().length === 0 ? 0 : scroller.current.scrollHeight;
  }, [list[0]?.key]);

  return html`<main class="transcript-area">
    <div class="transcript" ref=${scroller} tabindex="0" role="region" aria-label="Conversation">
      <div class="column" ref=${column}>
        ${list.slice(firstShown).map((message, at) => turn(message, firstShown + at, list))}
        ${list.length === 0 ? html`<${Nothing} />` : null}
      </div>
    </div>
    ${isAtEnd.value
      ? null
      : html`<button type="button" class="jump" onClick=${jump}><${Icon} name="down" />Jump to newest</button>`}
  </main>`;
}

/** Brings the end of the conversation into view, which is then followed. */
export function jumpToNewest() {
  const scroller = document.querySelector(".transcript");
  isAtEnd.value = true;
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  scroller.scrollTo({ top: scroller.scrollHeight, behavior: isCalm ? "instant" : "smooth" });
}

function Nothing() {
  if (!isRestoring.value) return html`<${EmptyState} />`;
  return html`<p class="restoring">Bringing back the chat</p>`;
}

function turn(message, at, list) {
  if (message.role === "assistant") {
    return html`<${Answer} key=${message.key} answer=${message} isLast=${at === list.length - 1} />`;
  }
  if (message.role !== "user") return html`<${OtherTurn} key=${message.key} message=${message} history=${list} />`;
  return html`<${UserMessage} key=${message.key} message=${message} isPending=${isPending.value && at === list.length - 2} />`;
}

/** Keeps the end in view as the column grows, until the reader moves away from it. */
function followEnd(scroller, column) {
  let lastTop = 0;
  let lastHeight = 0;
  let isDragging = false;
  // Whoever went up by hand comes back by hand, or asks for it: while an answer grows, shrinking content does not count.
  let hasGoneUp = false;
  let top = null;
  // Whoever edits an older message wants to see that one.
  const isEditing = () => column.querySelector(".editor:focus-within") !== null;
  const distance = () => scroller.scrollHeight - scroller.clientHeight - scroller.scrollTop;
  const isThere = () => distance() <= END_ZONE_PX && !(hasGoneUp && isRunning.peek());
  const isEmpty = () => messages.peek().length === 0;

  const onScroll = () => {
    if (isEmpty()) return;
    // Going up by hand leaves the end, however little; being pushed up by shrinking content does not. Content also
    // shrinks by being come near to: until then its height is a guess.
    const shrunk = Math.max(0, lastHeight - scroller.scrollHeight);
    const wentUp = scroller.scrollTop < lastTop - shrunk - 1;
    if (wentUp) hasGoneUp = distance() > 1;
    else if (scroller.scrollTop > lastTop && distance() <= END_ZONE_PX) hasGoneUp = false;
    if (wentUp) isAtEnd.value = !hasGoneUp;
    else if (isThere()) isAtEnd.value = true;
    lastTop = scroller.scrollTop;
    lastHeight = scroller.scrollHeight;
  };
  // Browsers keep in place what is read while something comes in above it, but not at the very top.
  const keepTop = () => {
    const first = column.firstElementChild;
    if (first !== top && top?.parentNode === column && scroller.scrollTop === 0) scroller.scrollTop = top.offsetTop;
    top = first;
  };
  const keepEnd = () => {
    keepTop();
    if (isEmpty()) return;
    if (isAtEnd.value) hasGoneUp = false; // also by a button, or a message that was sent
    if (isAtEnd.value && !isDragging && !isEditing()) scroller.scrollTop = scroller.scrollHeight;
    else isAtEnd.value = isThere();
  };
  const onPointerDown = (event) => (isDragging = event.pointerType === "mouse" && column.contains(event.target));
  const onPointerUp = () => (isDragging = false);

  const observer = new ResizeObserver(keepEnd);
  observer.observe(column);
  observer.observe(scroller);
  scroller.addEventListener("scroll", onScroll, { passive: true });
  scroller.addEventListener("pointerdown", onPointerDown);
  window.addEventListener("pointerup", onPointerUp);
  window.addEventListener("pointercancel", onPointerUp);
  return () => {
    observer.disconnect();
    scroller.removeEventListener("scroll", onScroll);
    scroller.removeEventListener("pointerdown", onPointerDown);
    window.removeEventListener("pointerup", onPointerUp);
    window.removeEventListener("pointercancel", onPointerUp);
  };
}
