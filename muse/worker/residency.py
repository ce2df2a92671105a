"""What a session has in the KV cache, and in which words its reuse is reported.

The exact ids are compared; an unknown id makes everything after it unknown (design section 5).
"""

from __future__ import annotations

from collections.abc import Sequence

from muse.protocol import ResetReason


def common_prefix(resident: Sequence[int], prompt: Sequence[int]) -> int:
    """Number of leading ids that two prompts share."""
    limit = min(len(resident), len(prompt))
    if list(resident[:limit]) == list(prompt[:limit]):
        return limit
    return next(i for i in range(limit) if resident[i] != prompt[i])


def reset_reason(resident: Sequence[int] | None, prompt: Sequence[int], reused: int) -> ResetReason:
    """Why `reused` tokens of the prompt were kept.

    resident: ids believed to be in the cache (may be one more than really evaluated: the last sampled
    token); None when the session's last request left them unknown; empty when there are none.
    """
    if resident is None:
        return "dirty"
    if not resident:
        return "new"
    shared = common_prefix(resident, prompt)
    if not reused:
        # Nothing speaks against the ids, so the cache was lost to others meanwhile.
        return "new" if shared == len(resident) else "mismatch"
    if shared < len(resident) or reused < shared - 1:
        return "rewound"
    return "equal" if len(prompt) == len(resident) else "exact_prefix"
