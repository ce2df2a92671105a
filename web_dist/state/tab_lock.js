// A lock of one tab, by which another tells whether it may have the same chat.
//
// A lock that is held says nothing yet: the page before a reload holds it until the browser has taken it down, which
// takes long on a busy machine. Only a page that lives answers when it is asked. So a tab is told that another has the
// lock by that answer, and otherwise waits for the lock.

// How often it is asked, and after how long without an answer the lock counts as another tab's all the same: browsers
// put tabs to sleep, and those do not answer.
const ASK_MS = 100;
const PATIENCE_MS = 10_000;

const held = new Set();
let tabs = null;

/**
 * Takes a lock, for as long as this tab lives.
 * @returns {{isOurs: Promise<boolean>, release: () => void}} isOurs: false if another tab has it
 */
export function takeLock(name) {
  // Only secure contexts have locks; without them no tab knows of another.
  if (navigator.locks === undefined) return { isOurs: Promise.resolve(true), release: () => {} };
  tabs ??= listen();
  const giveUp = new AbortController();
  let letGo = () => {};
  const onAnswer = ({ data }) => data.lives === name && giveUp.abort();
  tabs.addEventListener("message", onAnswer);
  const asking = setInterval(() => tabs.postMessage({ asked: name }), ASK_MS);
  const patience = setTimeout(() => giveUp.abort(), PATIENCE_MS);
  const stopAsking = () => {
    tabs.removeEventListener("message", onAnswer);
    clearInterval(asking);
    clearTimeout(patience);
  };
  const isOurs = new Promise((resolve) => {
    const own = () => {
      stopAsking();
      held.add(name);
      resolve(true);
      return new Promise((done) => (letGo = done));
    };
    navigator.locks.request(name, { signal: giveUp.signal }, own).catch(() => {
      stopAsking();
      held.delete(name);
      resolve(false);
    });
  });
  const release = () => {
    giveUp.abort();
    held.delete(name);
    letGo();
  };
  return { isOurs, release };
}

/** Answers other tabs from now on, for as long as this page lives. */
function listen() {
  const channel = new BroadcastChannel("muse.locks");
  let isLeft = false;
  addEventListener("pagehide", () => (isLeft = true));
  addEventListener("pageshow", () => (isLeft = false));
  channel.addEventListener("message", ({ data }) => {
    if (!isLeft && held.has(data.asked)) channel.postMessage({ lives: data.asked });
  });
  return channel;
}
