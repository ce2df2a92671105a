// One answer from its request to its end, over as many connections as that takes.
//
// Answers are detached: they belong to the server and go on without a reader. When the connection is lost,
// the reader comes back with the position of its last piece, so no text is repeated or missing. The updates
// are those of completion.js, and between them
//   {kind: "open", id}   a connection is there, each time; id of the reply
//   {kind: "lost"}   it was lost; another try follows
// A reply that cannot be read to its end throws an ApiError with the code `interrupted`.

import { ApiError, openPostStream, openStream, postJson } from "./api.js";
import { readUpdates } from "./completion.js";

// The first tries come quickly, because a restart of the server takes about a second; in all about 20 s.
const PAUSES_MS = [300, 700, 1500, 3000, 5000, 5000, 5000];
const LOST_CODES = ["connection_lost", "stream_cut", "unreachable"];

/**
 * Asks for an answer and follows it.
 * @param {object} body request body; what makes it a detached stream that shows its reasoning is added here
 * @param {AbortSignal} signal ends the reading, not the answer: see cancelReply
 */
export function askDetached(body, signal) {
  const request = {
    ...body,
    stream: true,
    chat_template_kwargs: { ...body.chat_template_kwargs, return_reasoning: true },
    muse: { ...body.muse, detached: true },
  };
  return follow(() => openPostStream("/v1/chat/completions", request, signal), { replyId: null, position: 0 }, signal);
}

/** Follows a reply from a position on. */
export function readReply(replyId, position, signal) {
  const place = { replyId, position };
  return follow(() => reopen(place, signal), place, signal);
}

/** Has the model end its thinking; whether there was some to end. Throws ApiError. */
export async function endThinking(replyId) {
  return (await postJson(`/api/replies/${encodeURIComponent(replyId)}/answer-now`, {})).answering;
}

/** Ends a reply on the server; tries again while the server cannot be reached, for an answer must stop. */
export async function cancelReply(replyId) {
  for (const pause of PAUSES_MS) {
    try {
      await postJson("/api/cancel", { reply_id: replyId });
      return;
    } catch (fault) {
      if (fault.code !== "unreachable") return; // refused: then there is nothing that runs
    }
    await sleep(pause);
  }
}

async function* follow(open, place, signal) {
  let failures = 0;
  for (;;) {
    try {
      const response = await open();
      place.replyId ??= response.headers.get("muse-reply-id");
      yield { kind: "open", id: place.replyId };
      for await (const update of readUpdates(response.body)) {
        if (update.kind === "started") place.replyId = update.id;
        if (update.kind === "text" || update.kind === "reasoning") {
          place.position = update.position ?? place.position;
          failures = 0;
        }
        yield update;
      }
      return;
    } catch (fault) {
      const isLost = LOST_CODES.includes(fault?.code);
      if (place.replyId === null || signal.aborted || !(isLost || fault.status === 404)) throw fault;
      if (!isLost) throw interrupted("The server was restarted, or has forgotten this answer.");
      if (failures === PAUSES_MS.length) throw interrupted("The connection to the server was lost.");
    }
    yield { kind: "lost" };
    await sleep(PAUSES_MS[failures++], signal);
    open = () => reopen(place, signal);
  }
}

function reopen({ replyId, position }, signal) {
  return openStream(`/api/replies/${encodeURIComponent(replyId)}?reasoning=true&after=${position}`, signal);
}

function interrupted(message) {
  return new ApiError(message, { code: "interrupted" });
}

function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
