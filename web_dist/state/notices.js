// What the page has to say about the conversation as a whole, until it is dismissed or the next request goes out.
import { signal } from "../vendor/signals.js";

/** A quiet remark: words, or null. */
export const remark = signal(null);
/**
 * A change of the conversation that the model did not take, or null:
 * {title, fault, again: {label, asks, run}}. `again` offers another try; asks: whether that asks the model.
 */
export const refusal = signal(null);

export function clearNotices() {
  remark.value = null;
  refusal.value = null;
}
