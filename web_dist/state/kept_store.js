// Chats in this browser's own database (IndexedDB): documents as in docs/chat-format.md, and beside them the pictures,
// which are written once each and not with every save. A save is one transaction: all of it, or what was there before.

const NAME = "muse";
const LAYOUT = 1;
const REFERENCE = "kept:";
// It opens within milliseconds. Browsers are known never to answer at times; the page must not wait for that.
const OPENING_PATIENCE_MS = 4_000;

let opening = null;

/** Overview of what is kept, newest first: {id, title, savedAt, turns}. */
export async function listKept() {
  const rows = await inTransaction("readonly", (chats) => askStore(chats.index("savedAt").getAll()));
  return rows.map(({ id, title, savedAt, document }) => ({ id, title, savedAt, turns: document.messages.length })).reverse();
}

/** The ids of the chats that somebody said these words in, or the model, in any case. */
export async function findSaid(words) {
  const wanted = words.toLowerCase();
  const rows = await inTransaction("readonly", (chats) => askStore(chats.getAll()));
  const isFound = ({ document }) => document.messages.some((message) => saidIn(message).toLowerCase().includes(wanted));
  return new Set(rows.filter(isFound).map(({ id }) => id));
}

function saidIn({ role, content }) {
  if (role === "system") return "";
  return typeof content === "string" ? content : content.map((part) => part.text ?? "").join("");
}

/** The document of a kept chat, or null. */
export async function readKept(id) {
  return inTransaction("readonly", async (chats, pictures) => {
    const row = await askStore(chats.get(id));
    if (row === undefined) return null;
    const [keys, urls] = await Promise.all([askStore(pictures.getAllKeys(ofChat(id))), askStore(pictures.getAll(ofChat(id)))]);
    const held = new Map(keys.map(([, number], at) => [`${REFERENCE}${number}`, urls[at]]));
    return withUrls(row.document, (url) => held.get(url) ?? url);
  });
}

/** Writes a chat in place of what was kept under its id. Throws what the browser says, a full storage among it. */
export async function writeKept(id, title, document) {
  await inTransaction("readwrite", async (chats, pictures) => {
    const [keys, urls] = await Promise.all([askStore(pictures.getAllKeys(ofChat(id))), askStore(pictures.getAll(ofChat(id)))]);
    const numbers = new Map(urls.map((url, at) => [url, keys[at][1]]));
    const used = new Set();
    let next = Math.max(0, ...numbers.values()) + 1;
    const stored = withUrls(document, (url) => {
      if (!numbers.has(url)) {
        pictures.put(url, [id, next]);
        numbers.set(url, next++);
      }
      used.add(numbers.get(url));
      return `${REFERENCE}${numbers.get(url)}`;
    });
    for (const key of keys) if (!used.has(key[1])) pictures.delete(key);
    chats.put({ id, title, savedAt: document.exported_at, document: stored });
  });
}

/** Deletes one chat, or all. */
export async function deleteKept(id = null) {
  await inTransaction("readwrite", (chats, pictures) => {
    if (id === null) {
      chats.clear();
      pictures.clear();
      return;
    }
    chats.delete(id);
    pictures.delete(ofChat(id));
  });
}

function ofChat(id) {
  return IDBKeyRange.bound([id], [id, []]);
}

function withUrls(document, urlOf) {
  const part = (one) => (one.type === "image_url" ? { ...one, image_url: { url: urlOf(one.image_url.url) } } : one);
  const message = (one) => (Array.isArray(one.content) ? { ...one, content: one.content.map(part) } : one);
  return { ...document, messages: document.messages.map(message) };
}

/** Runs `work` over both stores; what it gives is there once the browser has written all of it. */
async function inTransaction(mode, work) {
  const transaction = (await database()).transaction(["chats", "pictures"], mode, { durability: "strict" });
  const finished = new Promise((resolve, reject) => {
    transaction.oncomplete = resolve;
    transaction.onabort = () => reject(transaction.error ?? new Error("The browser broke it off."));
  });
  const [worked] = await Promise.all([worker(transaction, work), finished]);
  return worked;
}

async function worker(transaction, work) {
  try {
    return await work(transaction.objectStore("chats"), transaction.objectStore("pictures"));
  } catch (fault) {
    // Where the browser broke it off, as for a full storage, it says why there.
    if (transaction.error !== null) throw transaction.error;
    transaction.abort();
    throw fault;
  }
}

function database() {
  opening ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(NAME, LAYOUT);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("chats", { keyPath: "id" }).createIndex("savedAt", "savedAt");
      request.result.createObjectStore("pictures");
    };
    request.onsuccess = () => {
      // The browser closes it when the user clears its data: what is kept from then on goes into a new one.
      request.result.onclose = () => (opening = null);
      resolve(request.result);
    };
    request.onerror = () => reject(request.error);
    setTimeout(() => reject(new Error("The browser does not open it.")), OPENING_PATIENCE_MS);
  }).catch((fault) => {
    opening = null;
    throw fault;
  });
  return opening;
}

function askStore(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
