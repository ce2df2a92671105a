// Gives the user a file that was made here.

// By then every browser has begun to read it.
const READ_WITHIN_MS = 60_000;

/** @param {string} name of the file  @param {string} type MIME type  @param {string} text its content */
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), READ_WITHIN_MS);
}

/** A name for a file, of a title and a day: letters and digits of any language, nothing that a file system dislikes. */
export function fileName(title, now, ending) {
  const words = title.normalize("NFC").replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  const short = [...words].slice(0, 48).join("").replace(/-+$/, "") || "chat";
  const pad = (number) => String(number).padStart(2, "0");
  const day = `${now.getFullYear()}-${pad(now.getMonth() + 1)}-${pad(now.getDate())}`;
  return `${short}-${day}.${ending}`;
}
