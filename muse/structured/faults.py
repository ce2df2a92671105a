"""What is wrong with a schema, and where."""

from __future__ import annotations


class SchemaFault(Exception):
    """A schema that answers cannot be held to. pointer: place in the schema, a JSON Pointer as a URI fragment ("#" is
    the whole). what: what is wrong there and how to fix it, without a full stop."""

    def __init__(self, pointer: str, what: str) -> None:
        super().__init__(f"{pointer}: {what}")
        self.pointer = pointer
        self.what = what


def join(pointer: str, *steps: str | int) -> str:
    """The pointer to a part."""
    return "/".join((pointer, *(str(step).replace("~", "~0").replace("/", "~1") for step in steps)))
