// Words about files: sizes, and why one is not taken.

/** A file that is not taken; the message is the rest of a sentence that begins with its name. */
export class FileRefused extends Error {}

/** Bytes as "340 bytes", "85 KB" or "2.4 MB", of 1,024 each, as the server's limits are. */
export function fileSize(bytes) {
  if (bytes < 1024) return `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  if (bytes < 1024 * 1024) return `${Math.round(bytes / 1024)} KB`;
  const size = bytes / (1024 * 1024);
  return `${size < 10 && size % 1 !== 0 ? size.toFixed(1) : Math.round(size)} MB`;
}
