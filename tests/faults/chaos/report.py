"""The summary of a run, for people."""

from __future__ import annotations

import statistics
from collections import Counter

from tests.faults.chaos.run import Result


def percentile(values: list[float], part: float) -> float:
    """The value that so large a part of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


def is_clean(result: Result) -> bool:
    """No failure of any kind."""
    return not result.log.failures and not result.faults


def summary(result: Result) -> str:
    """Answers by kind, errors, signals by process, the main process, latencies, failures."""
    log, watcher = result.log, result.watcher
    lines = ["answers                                     right  resumed"]
    lines += [f"  {kind:<40}{log.rights[kind]:>7}{log.resumed[kind]:>9}" for kind in sorted(log.rights)]
    lines.append(f"  {'all':<40}{log.rights.total():>7}{log.resumed.total():>9}")
    lines.append("errors that a rule names")
    lines += [f"  {code:<24}{kind:<32}{count:>4}" for (kind, code), count in sorted(log.named.items())] or ["  none"]
    lines.append("signals")
    for (name, number), count in sorted(result.killer.counts().items()):
        lines.append(f"  {name:<40}{number:<9}{count:>5}")
    lines.append(
        f"workers replaced {watcher.deaths()}, given up {watcher.times_failed()}, asked again {watcher.restarts_asked}"
    )
    sizes = [sample.memory_mib for _, sample in watcher.samples] or [0.0]
    lines.append(
        f"main process: {result.before.memory_mib:.0f} MiB at first, {statistics.median(sizes):.0f} (median), "
        f"{max(sizes):.0f} (most), {result.after.memory_mib:.0f} at last; descriptors {result.before.descriptors} to "
        f"{result.after.descriptors}, threads {result.before.threads} to {result.after.threads}"
    )
    for path, times in result.latencies.items():
        lines.append(
            f"{path}: {len(times)} requests, p50 {percentile(times, 0.5):.1f} ms, p99 {percentile(times, 0.99):.1f}, "
            f"most {max(times):.1f}"
        )
    lines.append(f"failures: {len(log.failures)}" + (f" (records: {log.folder})" if log.failures else ""))
    for (kind, reason), count in Counter((kind, reason[:110]) for kind, reason in log.failures).most_common():
        lines.append(f"  {count:>4} x {kind}: {reason}")
    lines += [f"  {fault}" for fault in result.faults]
    return "\n".join(lines)
