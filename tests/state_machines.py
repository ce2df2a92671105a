"""How random sequences of steps are run."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def explore(machine: type[RuleBasedStateMachine], examples: int, steps: int, *, again_the_same: bool) -> None:
    """Run so many sequences of at most so many steps; always the same ones, or others each time."""
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize=again_the_same,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
