// The numeric settings: name, range and meaning of each.
//
// min, max: what the server accepts. step: of the slider and the arrow keys. softMax: end of the slider where the true
// maximum is too far away to be useful. empty: what no value means, where that is a choice of its own and not the
// model's default; such a field has no slider, and shows `unit` while it is empty.

// The server's own limit for whole numbers of 32 bits.
const INT_MAX = 2147483647;

export const SAMPLING = [
  {
    key: "temperature",
    label: "Temperature",
    min: 0,
    max: 2,
    step: 0.05,
    help: "How freely words are chosen. 0 always takes the likeliest; above 1 gets wild.",
  },
  {
    key: "top_p",
    label: "Top-p",
    min: 0.01,
    max: 1,
    step: 0.01,
    help: "Only the likeliest words that together reach this share of probability. 1 turns it off.",
  },
  {
    key: "top_k",
    label: "Top-k",
    min: 0,
    max: INT_MAX,
    softMax: 200,
    step: 1,
    whole: true,
    help: "Only this many of the likeliest words. 0 turns it off.",
  },
  {
    key: "min_p",
    label: "Min-p",
    min: 0,
    max: 0.99,
    step: 0.01,
    help: "Drops words less likely than this share of the likeliest one. 0 turns it off.",
  },
];

/** Against answers that repeat themselves; only for engines that have them. */
export const PENALTIES = [
  {
    key: "repeat_penalty",
    label: "Repeat penalty",
    min: 0.1,
    max: 2,
    step: 0.05,
    help: "Above 1 they become less likely, below 1 more likely. 1 turns it off.",
  },
  {
    key: "presence_penalty",
    label: "Presence penalty",
    min: -2,
    max: 2,
    step: 0.1,
    help: "Lowers all of them alike, however often they were there. Below 0 it favours them. 0 turns it off.",
  },
  {
    key: "frequency_penalty",
    label: "Frequency penalty",
    min: -2,
    max: 2,
    step: 0.1,
    help: "Lowers them more, the more often they were there. Below 0 it favours them. 0 turns it off.",
  },
];

export const LIMITS = [
  {
    key: "max_tokens",
    label: "Longest answer",
    unit: "tokens",
    min: 1,
    max: INT_MAX,
    step: 1,
    whole: true,
    empty: "Max",
    isWithinContext: true,
    help: "Max is as much as the context holds. A token is about three quarters of a word.",
  },
  {
    key: "seed",
    label: "Seed",
    unit: "number",
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    step: 1,
    whole: true,
    empty: "Random",
    help: "The same seed, settings and conversation give the same answer again.",
  },
];

/** Only for models that think. */
export const THINKING_LIMIT = {
  key: "max_thinking_tokens",
  label: "Longest thinking",
  unit: "tokens",
  min: 0,
  max: INT_MAX,
  step: 1,
  whole: true,
  empty: "No limit",
  isWithinContext: true,
  help: "After so many tokens the model has to answer. 0 lets it answer at once.",
};

export const NUMBERS = [...SAMPLING, ...PENALTIES, ...LIMITS, THINKING_LIMIT];

/** How long a model with that setting thinks; the server's own names, and ours for people. */
export const STRENGTHS = { low: "Low", medium: "Medium", high: "High", xhigh: "Extra high" };

/** The server takes no more stop strings in one request. */
export const MAX_STOP_STRINGS = 16;

/** True if the number is one the server takes for this field. */
export function isValid(field, value, max = field.max) {
  return Number.isFinite(value) && value >= field.min && value <= max && (!field.whole || Number.isInteger(value));
}

/** What a field takes, in words. */
export function rangeWords(field, max = field.max) {
  const kind = field.whole ? "a whole number" : "a number";
  if (max >= INT_MAX) return `Must be ${kind} from ${field.min} upwards.`;
  const why = field.isWithinContext ? ", all that the model’s context holds" : "";
  return `Must be ${kind} from ${field.min} to ${max}${why}.`;
}
