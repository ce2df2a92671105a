// What the user is doing on the page, apart from the conversation itself.
import { effect, signal } from "../vendor/signals.js";

/** The text in the composer; suggestions may fill it. */
export const draft = signal("");
/** Whether the end of the conversation is followed as it grows: the reader is there, or has just sent something. */
export const isAtEnd = signal(true);
/** Whether the settings sheet is shown. */
export const isSettingsOpen = signal(false);
/** Whether the sheet of kept chats and files is shown. */
export const isChatsOpen = signal(false);
/** Whether the list of shortcuts is shown. */
export const isShortcutListOpen = signal(false);
/** The picture that is shown large, or null. */
export const shownPicture = signal(null);
/** The text file whose contents are shown, or null. */
export const shownFile = signal(null);

// There is room for one sheet.
effect(() => {
  if (isSettingsOpen.value) isChatsOpen.value = false;
});
effect(() => {
  if (isChatsOpen.value) isSettingsOpen.value = false;
});
