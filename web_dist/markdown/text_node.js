// The one way an answer's text nodes change.

/** Sets the data of a text node, by appending where that is enough. */
export function setText(textNode, previous, next) {
  if (previous === next) return;
  if (next.startsWith(previous)) textNode.appendData(next.slice(previous.length));
  else textNode.data = next;
}
