// Engines cut a text without copying it: the piece points into the whole text, which then lives as long as the piece. A
// piece that is kept of a text that grows would so keep one version of the text each.

/** The same text with memory of its own. To be used on what is kept of a text that still grows. */
export function ownCopy(piece) {
  // Joining and cutting makes the engine write out the joined text, which is no longer than this piece.
  return ` ${piece}`.slice(1);
}
