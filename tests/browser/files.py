"""Files on their way into the page: by the system's dialog, pasted, dropped."""

from __future__ import annotations

from base64 import b64encode

from playwright.sync_api import FilePayload, Locator, Page


def add(page: Page, *files: FilePayload) -> None:
    """By the button and the system's file dialog."""
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Add files").first.click()
    chooser.value.set_files(list(files))


def hand_over(target: Locator, how: str, files: list[FilePayload], texts: dict[str, str] | None = None) -> None:
    """Paste or drop files as the system would. (Chromium lets scripts make such events.)"""
    described = [{"name": f["name"], "type": f["mimeType"], "data": b64encode(f["buffer"]).decode()} for f in files]
    target.evaluate(
        """(element, [how, files, texts]) => {
          const data = new DataTransfer();
          for (const [type, text] of Object.entries(texts)) data.setData(type, text);
          const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
          for (const {name, type, data: text} of files) data.items.add(new File([bytes(text)], name, {type}));
          const options = {bubbles: true, cancelable: true};
          const event = how === "paste"
            ? new ClipboardEvent("paste", {...options, clipboardData: data})
            : new DragEvent(how, {...options, dataTransfer: data});
          element.dispatchEvent(event);
        }""",
        [how, described, texts or {}],
    )


def attached(page: Page) -> Locator:
    return page.locator(".composer .attachment")


def composer(page: Page) -> Locator:
    return page.get_by_label("Message", exact=True)
