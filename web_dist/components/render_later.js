// Work on what is in the page already, in an order that the reader does not notice: the newest first, as much as a frame
// has time for; the rest in idle moments, or as soon as somebody scrolls near it.

// So long a first frame may be held up; a long chat opens with its end.
const FIRST_MS = 10;
const IDLE_MS = 6;
// Somebody who scrolls this close will see it soon.
const NEAR = "1500px 0px";

/** @type {Map<Element, () => void>} by the turn or other element that has to come near; oldest first */
const waiting = new Map();
let isFlushing = false;
let isIdling = false;
let nearness = null;

/**
 * Runs `work` before the next frame if there is time, else later.
 * @param {Element} element it is about; in the page
 * @returns {() => void} calls it off
 */
export function renderLater(element, work) {
  waiting.set(element, work);
  if (!isFlushing) {
    isFlushing = true;
    // When all of the messages have been put into the page, and before it is painted.
    queueMicrotask(() => {
      isFlushing = false;
      workFor(FIRST_MS);
      for (const left of waiting.keys()) watch(left);
    });
  }
  return () => {
    waiting.delete(element);
    nearness?.unobserve(element);
  };
}

function workFor(ms) {
  const until = performance.now() + ms;
  for (const element of [...waiting.keys()].reverse()) {
    run(element);
    if (performance.now() > until) break;
  }
  if (waiting.size > 0 && !isIdling) {
    isIdling = true;
    whenIdle(() => {
      isIdling = false;
      workFor(IDLE_MS);
    });
  }
}

function run(element) {
  const work = waiting.get(element);
  if (work === undefined) return;
  waiting.delete(element);
  nearness?.unobserve(element);
  work();
}

function watch(element) {
  nearness ??= new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) run(target);
    },
    { root: element.closest(".transcript"), rootMargin: NEAR },
  );
  nearness.observe(element);
}

/** Runs `work` in an idle moment; returns how to call it off. */
export function whenIdle(work) {
  // Safari has no idle callbacks.
  if (window.requestIdleCallback === undefined) {
    const timer = setTimeout(work, 50);
    return () => clearTimeout(timer);
  }
  const handle = requestIdleCallback(work, { timeout: 500 });
  return () => cancelIdleCallback(handle);
}
