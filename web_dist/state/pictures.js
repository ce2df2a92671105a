// Pictures: from a file to what a message carries, and from what the server holds back to a picture.
//
// They go to the server as they are, as data URLs: it turns and scales them. Here only the first bytes are read, to
// refuse at once what it would refuse; the browser tells the size, upright as it will be seen.

import { getJson } from "../net/api.js";
import { signal } from "../vendor/signals.js";
import { FileRefused } from "./file_words.js";

const PNG_SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const WEBP_ANIMATED = 0x02;
const MAX_PIECES = 10_000;
// Base64 has four characters for three bytes.
const BYTES_A_CHARACTER = 3 / 4;

let nextKey = 1;

/** @returns {"jpeg"|"png"|"webp"|null} what these bytes begin */
export function pictureKind(data) {
  if (PNG_SIGNATURE.every((byte, at) => data[at] === byte)) return "png";
  if (data[0] === 0xff && data[1] === 0xd8 && data[2] === 0xff) return "jpeg";
  return letters(data, 0) === "RIFF" && letters(data, 8) === "WEBP" ? "webp" : null;
}

/** Whether a picture moves; the server takes only still ones. */
export function isAnimated(data, kind) {
  if (kind === "webp") return letters(data, 12) === "VP8X" && (data[20] & WEBP_ANIMATED) !== 0;
  if (kind !== "png") return false;
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  let at = PNG_SIGNATURE.length;
  for (let piece = 0; piece < MAX_PIECES && at + 8 <= data.length; piece++) {
    const name = letters(data, at + 4);
    if (name === "acTL") return true;
    if (name === "IDAT") return false;
    at += 12 + view.getUint32(at);
  }
  return false;
}

/**
 * @param {string} name of the file
 * @param {Uint8Array} data of a picture
 * @param {string} kind as pictureKind tells
 * @param {object|null} limits of the server, null while they are unknown
 * @throws {FileRefused}
 */
export async function picture(name, data, kind, limits) {
  if (isAnimated(data, kind)) throw new FileRefused("is animated, and only still pictures are taken");
  const file = new Blob([data], { type: `image/${kind}` });
  const view = URL.createObjectURL(file);
  const extent = await sizeOf(view).catch((fault) => {
    URL.revokeObjectURL(view);
    throw fault;
  });
  const { width, height } = extent;
  const isTooLarge =
    limits !== null && (Math.max(width, height) > limits.max_side || width * height > limits.max_pixels);
  if (isTooLarge) {
    URL.revokeObjectURL(view);
    const most = Math.round(limits.max_pixels / 1e6);
    throw new FileRefused(`is ${width} × ${height} pixels; a picture may have ${most} million of them`);
  }
  const made = pictureAttachment({ name, url: await dataUrl(file), width, height, view });
  views.register(made, view);
  return made;
}

// A browser holds a file for as long as there is an address of it: that goes with the picture.
const views = new FinalizationRegistry((view) => URL.revokeObjectURL(view));

/**
 * A picture as it is attached. url: its bytes, as they are sent; view: an address that shows it, and is quicker to show
 * where the picture is large. extent: {width, height}, null while it is not known. Its tokens come from the server;
 * null until then.
 */
export function pictureAttachment({ name, url, width = null, height = null, view = url }) {
  const extent = signal(width === null ? null : { width, height });
  return { kind: "picture", key: `picture-${nextKey++}`, name, url, view, size: sizeBehind(url), extent, tokens: signal(null) };
}

/** A picture of a message that came from elsewhere. The server forgets its name. */
export function heldPicture(url, name) {
  return pictureAttachment({ name, url });
}

/** Finds out what nobody has told of a picture that came back: its size in pixels, and what it costs. */
export async function learnOf(picture) {
  if (picture.extent.value !== null) return;
  try {
    picture.extent.value = await sizeOf(picture.view);
  } catch {
    return; // it cannot be shown either, which is seen where it stands
  }
  await askTokens(picture);
}

/** Asks what the picture will cost. */
export async function askTokens({ extent, tokens }) {
  const { width, height } = extent.value;
  try {
    tokens.value = (await getJson(`/api/picture-tokens?width=${width}&height=${height}`)).tokens;
  } catch {
    // It goes without the figure: a server that is not there now cannot tell.
  }
}

function letters(data, at) {
  return String.fromCharCode(...data.subarray(at, at + 4));
}

function sizeBehind(url) {
  const padding = url.endsWith("==") ? 2 : url.endsWith("=") ? 1 : 0;
  return (url.length - url.indexOf(",") - 1) * BYTES_A_CHARACTER - padding;
}

function dataUrl(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new FileRefused("cannot be read"));
    reader.readAsDataURL(file);
  });
}

function sizeOf(url) {
  return new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve({ width: image.naturalWidth, height: image.naturalHeight });
    image.onerror = () => reject(new FileRefused("cannot be read: its file is damaged"));
    image.src = url;
  });
}
