// Reader of server-sent events over fetch, because EventSource can neither POST nor show comments.
//
// Follows the WHATWG event-stream rules: lines end in CR, LF or CRLF wherever the bytes were split;
// several `data` lines join with LF; a blank line dispatches; an event without its blank line at the
// end of the stream is dropped. Comments are delivered too: the server sends signs of life in them.
// Knows nothing of chat. Invariant (tests/browser/units/sse.test.mjs): any chunking of the same bytes
// gives the same items in the same order.

/** @typedef {{type: "event", event: string, data: string, id: string} | {type: "comment", text: string}} SseItem */

/** Incremental parser; `push` takes decoded text in any pieces and returns the items completed by it. */
export class SseParser {
  #rest = "";
  #atStart = true;
  #skipLineFeed = false;
  #event = "";
  #data = [];
  #id = "";

  /** @param {string} text @returns {SseItem[]} */
  push(text) {
    if (text === "") return [];
    if (this.#atStart) {
      this.#atStart = false;
      if (text.startsWith("\uFEFF")) text = text.slice(1);
    }
    const items = [];
    let from = 0;
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      if (code === 0x0a && this.#skipLineFeed) {
        this.#skipLineFeed = false;
        from = at + 1;
        continue;
      }
      this.#skipLineFeed = false;
      if (code !== 0x0a && code !== 0x0d) continue;
      this.#line(this.#rest + text.slice(from, at), items);
      this.#rest = "";
      from = at + 1;
      // The LF of a CRLF may come with the next piece: it must not count as a second, blank line.
      this.#skipLineFeed = code === 0x0d;
    }
    this.#rest += text.slice(from);
    return items;
  }

  #line(line, items) {
    if (line === "") {
      if (this.#data.length > 0) {
        const event = this.#event || "message";
        items.push({ type: "event", event, data: this.#data.join("\n"), id: this.#id });
      }
      this.#event = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) {
      items.push({ type: "comment", text: line.slice(line[1] === " " ? 2 : 1) });
      return;
    }
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
  }
}

/**
 * Items of a byte stream until it ends. Leaving the loop early cancels the stream.
 * @param {ReadableStream<Uint8Array>} stream
 * @returns {AsyncGenerator<SseItem, void, void>}
 */
export async function* readSse(stream) {
  const parser = new SseParser();
  // A decoder in stream mode holds back the bytes of a character that is split over chunks.
  // ignoreBOM leaves the byte order mark to the parser, so that both ways in agree.
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const reader = stream.getReader();
  let ended = false;
  try {
    while (!ended) {
      const { done, value } = await reader.read();
      ended = done;
      yield* parser.push(done ? decoder.decode() : decoder.decode(value, { stream: true }));
    }
  } finally {
    // Closing the connection is how the server learns that nobody reads any more.
    if (!ended) reader.cancel().catch(() => {});
  }
}
