// What fills the model's context after an answer, from its receipt.

/** Every share in the order of the prompt, with its name; `key` is that of the receipt's `context`. */
export const SHARES = [
  { key: "template", name: "Template" },
  { key: "system", name: "System" },
  { key: "tools", name: "Tools" },
  { key: "history", name: "Earlier turns" },
  { key: "images", name: "Images" },
  { key: "question", name: "This question" },
  { key: "begun", name: "Answer before" },
  { key: "prompt", name: "Prompt" },
  { key: "thinking", name: "Thinking" },
  { key: "answer", name: "Answer" },
];

const NEARLY_FULL = 0.85;

/**
 * @param {object|null} metrics a receipt
 * @param {number|null} contextLength of the loaded model, for receipts that do not say it
 * @returns {{length: number, used: number, free: number, isNearlyFull: boolean,
 *   parts: Array<{key: string, name: string, tokens: number}>}|null} null while nothing is known; parts have tokens
 */
export function contextUse(metrics, contextLength) {
  const spent = metrics === null ? null : sharesOf(metrics);
  const length = metrics?.context?.length ?? contextLength;
  if (spent === null || !(length > 0)) return null;
  const parts = SHARES.map(({ key, name }) => ({ key, name, tokens: spent[key] ?? 0 })).filter(({ tokens }) => tokens > 0);
  const used = parts.reduce((sum, { tokens }) => sum + tokens, 0);
  if (used === 0) return null;
  return { length, used, free: Math.max(0, length - used), isNearlyFull: used / length >= NEARLY_FULL, parts };
}

/** Where the server cannot tell what the prompt was spent on, it is one share. */
function sharesOf({ context, prompt_tokens: prompt, completion_tokens: written, thinking_tokens: thought }) {
  if (context) return context;
  if (typeof prompt !== "number" || typeof written !== "number") return null;
  return { prompt, thinking: thought ?? 0, answer: written - (thought ?? 0) };
}
