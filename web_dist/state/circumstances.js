// What is known of how a message came about, besides what it says: {at, model, settings}, each only where it is known.
// at: when it was said or asked for, as an ISO 8601 date; settings: the fields of the request. Never sent anywhere.

const known = new WeakMap();

export function noteCircumstances(message, facts) {
  known.set(message, { ...known.get(message), ...facts });
}

export function circumstancesOf(message) {
  return known.get(message) ?? {};
}
