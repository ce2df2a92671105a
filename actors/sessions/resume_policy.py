"""Whether an answer goes on after its worker was lost, and with which error it ends if not.

Rules (design section 5): at most MAX_RESUMES resumes a turn. A request on which the worker dies twice at the
same place is poison and ends with an error of its own; a death before the worker had accepted the request
is the worker's own affair and proves nothing about it. A constrained answer goes on like any other.
"""

from __future__ import annotations

from typing import Final

from muse.errors import MuseError, WorkerFault

MAX_RESUMES: Final = 2


class ResumePolicy:
    """The rules over the life of one turn. `resumes` counts them."""

    def __init__(self) -> None:
        self.resumes = 0
        self._last_death_at: int | None = None

    def judge(self, fault: MuseError, *, generated: int, accepted: bool) -> MuseError | None:
        """None: go on. Else the fault to end with.

        fault: why the attempt ended. generated: tokens so far. accepted: by the worker that was lost.
        """
        if fault.code == "model_unavailable":
            return None  # the worker died before it had the request: nothing was tried yet
        if fault.code not in ("worker_lost", "worker_restarted"):
            return fault
        if fault.code == "worker_lost" and accepted:
            if self._last_death_at == generated:
                return WorkerFault(
                    "poison_prompt",
                    "The model process crashed twice at the same point of this request, so it was not tried again. "
                    "Other requests are not affected.",
                    status=502,
                    data=fault.data,
                )
            self._last_death_at = generated
        if self.resumes >= MAX_RESUMES:
            return fault
        self.resumes += 1
        return None
