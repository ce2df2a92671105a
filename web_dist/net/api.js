// HTTP calls to our own server, and the one error class the page shows to people.
// Every failure (network, HTTP status, error inside a stream) becomes an ApiError with words and a code.

export class ApiError extends Error {
  /**
   * @param {string} message one sentence for people
   * @param {{code?: string|null, status?: number, param?: string|null, retryAfterS?: number|null, details?: string|null}}
   *   [facts] details: the cause as a program told it
   */
  constructor(message, { code = null, status = 0, param = null, retryAfterS = null, details = null } = {}) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.status = status;
    this.param = param;
    this.retryAfterS = retryAfterS;
    this.details = details;
  }
}

/** The server's error object ({message, type, code, param}) as an ApiError. */
export function errorFromBody(body, status = 0, retryAfterS = null) {
  const fault = body?.error;
  const message = typeof fault?.message === "string" && fault.message !== "" ? fault.message : null;
  return new ApiError(message ?? `The server answered with status ${status}.`, {
    code: typeof fault?.code === "string" ? fault.code : null,
    param: typeof fault?.param === "string" ? fault.param : null,
    details: typeof fault?.details === "string" ? fault.details : null,
    status,
    retryAfterS,
  });
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", credentials: "same-origin", ...options });
  } catch (fault) {
    if (options.signal?.aborted) throw fault;
    throw new ApiError("The server cannot be reached. Check that it is still running.", { code: "unreachable" });
  }
  if (response.ok) return response;
  const retryAfter = Number(response.headers.get("retry-after"));
  const body = await response.json().catch(() => null);
  throw errorFromBody(body, response.status, retryAfter > 0 ? retryAfter : null);
}

/** GET a JSON document of ours. Throws ApiError. */
export async function getJson(path, signal) {
  const response = await request(path, { signal });
  return response.json();
}

/** POST JSON; resolves with the JSON of the answer. Throws ApiError. */
export async function postJson(path, body) {
  const response = await request(path, postOf(body));
  return response.json();
}

/** PUT JSON; resolves with the JSON of the answer. keepalive: also while the page is left. Throws ApiError. */
export async function putJson(path, body, { keepalive = false } = {}) {
  const response = await request(path, { ...postOf(body), method: "PUT", keepalive });
  return response.json();
}

/** DELETE, also while the page is being left; resolves with the JSON of the answer. Throws ApiError. */
export async function sendDelete(path) {
  const response = await request(path, { method: "DELETE", keepalive: true });
  return response.json();
}

/** GET an event stream; resolves with the response once its headers are here. Throws ApiError. */
export function openStream(path, signal) {
  return request(path, { signal, headers: { accept: "text/event-stream" } });
}

/** POST JSON for an event stream; resolves with the response once its headers are here. Throws ApiError. */
export function openPostStream(path, body, signal) {
  return request(path, { ...postOf(body), signal });
}

function postOf(body) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
}
