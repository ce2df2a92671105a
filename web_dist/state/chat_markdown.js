// A chat document as Markdown, to be read by people and other programs. What is not text (figures, settings) is left
// out; the JSON form has all of it.

const HEADINGS = { system: "System message", user: "You", assistant: "Answer", tool: "Result of a tool" };

/** @param {{messages: object[]}} document as chat_format.js makes it  @param {string} title */
export function markdownOf(document, title) {
  const parts = [`# ${oneLine(title)}`, `Saved on ${document.exported_at.slice(0, 10)}.`];
  for (const message of document.messages) parts.push(heading(message), ...bodyOf(message));
  return `${parts.join("\n\n")}\n`;
}

function heading({ role, model, created_at: at }) {
  const facts = [model, at === undefined ? undefined : `${at.slice(0, 16).replace("T", " ")} UTC`].filter((fact) => fact !== undefined);
  return facts.length === 0 ? `## ${HEADINGS[role]}` : `## ${HEADINGS[role]} (${facts.map(oneLine).join(", ")})`;
}

function bodyOf(message) {
  const parts = [];
  if (message.reasoning_content) parts.push("**Thinking**", quoted(message.reasoning_content));
  if (message.reasoning_content && message.content !== "") parts.push("**Answer**");
  parts.push(...contentParts(message.content));
  for (const call of message.tool_calls ?? []) parts.push(`Called \`${call.function.name}\`:`, fenced(call.function.arguments));
  const ending = endWords(message);
  return ending === null ? parts : [...parts, ending];
}

function contentParts(content) {
  if (typeof content === "string") return content === "" ? [] : [content];
  return content.map((part, at) => (part.type === "text" ? part.text : pictureIn(part, at)));
}

function pictureIn({ image_url: { url }, name = "" }, at) {
  const words = oneLine(name).replace(/[[\]\\]/g, "\\$&");
  return `![${words === "" ? `Picture ${at + 1}` : words}](${url})`;
}

function endWords({ state, edited, error, finish_reason: reason }) {
  if (edited) return "*Edited by the user.*";
  if (state === "stopped") return "*Stopped here.*";
  if (error !== undefined) return `*Ended here: ${oneLine(error.message)}*`;
  return reason === "length" ? "*Cut off here.*" : null;
}

function quoted(text) {
  return text
    .trim()
    .split("\n")
    .map((line) => (line === "" ? ">" : `> ${line}`))
    .join("\n");
}

function fenced(text) {
  const longest = Math.max(2, ...[...text.matchAll(/`{3,}/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}json\n${text}\n${fence}`;
}

function oneLine(text) {
  return text.replace(/\s+/g, " ").trim();
}
