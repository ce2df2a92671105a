// Which model answers and where it runs, as the server reports it.
import { html } from "../html.js";
import { server } from "../state/server.js";
import { bytes, count, duration } from "./figures.js";

// By the patch level of a native worker; other engines stop at once.
const STOPPING = {
  unpatched: "the answer ends, its work goes on unseen (unpatched worker)",
  cancel_op: "at once (patched worker)",
  control_pipe: "at once, in a prompt when that is read (control pipe)",
};

export function AboutModel() {
  const model = server.value?.model;
  if (!model) return null;
  const rows = [
    ["Name", model.id],
    ["Engine", [model.engine, model.engine_version].filter(Boolean).join(" ")],
    ["Files", files(model.files)],
    ["Runs on", [...new Set([model.backend, model.device])].filter(Boolean).join(", ")],
    ["Loaded in", typeof model.load_ms === "number" ? duration(model.load_ms) : null],
    ["Context", typeof model.context_length === "number" ? `${count(model.context_length)} tokens` : null],
    ["Draft", draftWords(model, server.value.draft)],
    ["Stopping", STOPPING[model.patch_level]],
    ["Memory", typeof model.memory_bytes === "number" ? bytes(model.memory_bytes) : null],
    ["Conversations", conversationMemory(model)],
    ["Server", server.value.server?.version],
  ];
  return html`<section class="setting-group" aria-labelledby="about-title">
    <h3 id="about-title">The model</h3>
    <dl class="facts">
      ${rows
        .filter(([, value]) => value)
        .map(([term, value]) => html`<div key=${term}><dt>${term}</dt><dd>${value}</dd></div>`)}
    </dl>
  </section>`;
}

function files(all = []) {
  if (all.length === 0) return null;
  return all.map((file) => html`<div key=${file.part}>${file.name} (${bytes(file.size_bytes)})</div>`);
}

function draftWords(model, draft) {
  if (draft && !draft.used) return `left out: ${draft.reason}`;
  if (!model.supports?.draft && !model.draft_tokens) return null;
  return model.draft_tokens ? `guesses ${count(model.draft_tokens)} tokens at a time` : "guesses ahead";
}

function conversationMemory({ kv_bytes: given, kv_limit_bytes: limit }) {
  if (typeof given !== "number") return null;
  return typeof limit === "number" ? `${bytes(given)} of at most ${bytes(limit)}` : bytes(given);
}
