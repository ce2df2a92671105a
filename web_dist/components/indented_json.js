// JSON as people read it: one line for each member, and every value as it was written. To parse it would round large
// numbers and leave out names that are there twice.

/** Deeper values stay on one line, or the spaces before them would be more than the text. */
const DEEPEST = 20;

/** The text with line breaks and indentation; what is no JSON stays as it is. @param {string} text */
export function indentedJson(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  const pieces = [];
  let depth = 0;
  for (const token of tokens(text)) {
    const closes = token === "}" || token === "]";
    const opened = pieces.at(-1) === "{" || pieces.at(-1) === "[";
    if (closes) depth -= 1;
    if ((closes && !opened) || (!closes && opened) || pieces.at(-1) === ",") pieces.push(lineAt(depth, closes));
    pieces.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") depth += 1;
  }
  return pieces.join("");
}

function lineAt(depth, closes) {
  return depth + (closes ? 1 : 0) > DEEPEST ? "" : `\n${"  ".repeat(depth)}`;
}

/** Marks, strings and other values, without the space between them. */
function* tokens(text) {
  const token = /["[\]{},:]|[^\s"[\]{},:]+/g;
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    if (found[0] === '"') token.lastIndex = behindString(text, found.index);
    yield text.slice(found.index, token.lastIndex);
  }
}

function behindString(text, begin) {
  for (let end = text.indexOf('"', begin + 1); ; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes += 1;
    if (slashes % 2 === 0) return end + 1;
  }
}
