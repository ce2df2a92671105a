// A long conversation comes into the page from its end, so that the reader does not wait for what is far above.
import { useEffect } from "../vendor/preact-hooks.js";
import { useSignal } from "../vendor/signals.js";
import { whenIdle } from "./render_later.js";

// Usually more than a screen; twice as many are painted some 50 ms later on a busy machine.
const AT_ONCE = 20;
const EACH_TIME = 40;

/** @returns {number} the index of the first message that is shown by now; soon 0, and then for as long as there are any */
export function useFirstShown(length) {
  const shown = useSignal(AT_ONCE);
  useEffect(() => {
    if (length === 0) shown.value = AT_ONCE;
    else if (length <= shown.value) shown.value = Infinity;
    else return whenIdle(() => (shown.value += EACH_TIME));
    return undefined;
  }, [length, shown.value]);
  return Math.max(0, length - shown.value);
}
