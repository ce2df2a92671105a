// The events of one streamed answer as a sequence of small updates; knows the wire, not the page.
//
// Updates, in the order they may come:
//   {kind: "progress", phase, ...}    from `: muse {...}` comments: loading, queued, prefill, ...
//   {kind: "started", id}             the reply's id, once: the model has taken the conversation
//   {kind: "reasoning", text, position}   a piece of what the model thinks before it answers
//   {kind: "text", text, position}    a piece of the answer; position behind it as the server counts, or null
//   {kind: "call", call}              a call of a tool, whole; only where an API program gave the model tools
//   {kind: "finish", reason}          stop, length, ...
//   {kind: "metrics", metrics}        the muse_metrics object
// The sequence ends normally only after `[DONE]`; a stream that breaks off throws, as does an error
// sent inside it, so that a half answer is never taken for a whole one.

import { ApiError, errorFromBody } from "./api.js";
import { readSse } from "./sse.js";

const PROGRESS_PREFIX = "muse ";

/** Updates of an event stream of bytes (the body of a completion, or of a reply read again). */
export async function* readUpdates(stream) {
  let id = null;
  for await (const item of readItems(stream)) {
    if (item.type === "comment") {
      const progress = parseProgress(item.text);
      if (progress !== null) yield progress;
      continue;
    }
    if (item.data === "[DONE]") return;
    const chunk = parseChunk(item.data);
    if (chunk.error !== undefined) throw errorFromBody(chunk);
    if (id === null && typeof chunk.id === "string") {
      id = chunk.id;
      yield { kind: "started", id };
    }
    yield* updatesOf(chunk, item.id === "" ? null : Number(item.id));
  }
  throw new ApiError("The connection closed before the answer was complete.", { code: "stream_cut" });
}

async function* readItems(stream) {
  try {
    yield* readSse(stream);
  } catch (fault) {
    if (fault?.name === "AbortError") throw fault;
    throw new ApiError("The connection to the server was lost.", { code: "connection_lost" });
  }
}

function* updatesOf(chunk, position) {
  const choice = Array.isArray(chunk.choices) ? chunk.choices[0] : undefined;
  const { reasoning_content: reasoning, content, tool_calls: calls } = choice?.delta ?? {};
  if (isText(reasoning)) yield { kind: "reasoning", text: reasoning, position };
  if (isText(content)) yield { kind: "text", text: content, position };
  for (const { index: _, ...call } of calls ?? []) yield { kind: "call", call };
  if (typeof choice?.finish_reason === "string") yield { kind: "finish", reason: choice.finish_reason };
  if (chunk.muse_metrics) yield { kind: "metrics", metrics: chunk.muse_metrics };
}

function isText(value) {
  return typeof value === "string" && value !== "";
}

function parseChunk(data) {
  try {
    const chunk = JSON.parse(data);
    if (chunk !== null && typeof chunk === "object") return chunk;
  } catch {
    // falls through to the error below: not JSON and not an object are the same fault
  }
  throw new ApiError("The server sent something this page cannot read.", { code: "bad_stream" });
}

function parseProgress(comment) {
  if (!comment.startsWith(PROGRESS_PREFIX)) return null;
  try {
    const facts = JSON.parse(comment.slice(PROGRESS_PREFIX.length));
    return typeof facts?.phase === "string" ? { ...facts, kind: "progress" } : null;
  } catch {
    return null; // a comment is never worth ending an answer for
  }
}
