// What an API program did in the same session: calls of tools, their results, messages of other roles. The page shows
// them as they are and sends them back unchanged.
import { html } from "../html.js";
import { indentedJson } from "./indented_json.js";
import { Pictures } from "./pictures.js";

/** The calls of an answer, each with its arguments. */
export function ToolCalls({ calls }) {
  if (calls.length === 0) return null;
  return html`<ul class="calls">
    ${calls.map(
      (call) => html`<li key=${call.id}>
        <p>Called <code>${call.function.name}</code></p>
        <pre tabindex="0">${indentedJson(call.function.arguments)}</pre>
      </li>`,
    )}
  </ul>`;
}

/** A message that neither the user nor the model wrote. @param {{message: object, history: object[]}} props */
export function OtherTurn({ message, history }) {
  const heading = message.role === "tool" ? "Result of a tool" : "System message";
  const name = message.role === "tool" ? calledName(message, history) : null;
  return html`<article class="turn from-other">
    <h2 class="visually-hidden">${heading}</h2>
    <details>
      <summary>${name === null ? heading : html`Result of <code>${name}</code>`}</summary>
      <pre tabindex="0" dir="auto">${message.text}</pre>
    </details>
    <${Pictures} pictures=${message.pictures} />
  </article>`;
}

function calledName({ fields }, history) {
  const calls = history.flatMap((message) => (message.role === "assistant" ? message.toolCalls.value : []));
  const call = calls.find(({ id }) => id === fields.tool_call_id);
  return call?.function.name ?? fields.name ?? null;
}
