"""The faults that are survived: data for the tests, and the table in ARCHITECTURE.md.

A Row is one line of the table. What the user sees and how the system recovers are values, not prose: the
words of the table are the words of the values, and the parametrised tests assert the values. `proof` names
every test of a row as "file::function"; `test_catalog.py` checks that each of them exists and that the
table in ARCHITECTURE.md is the one rendered here.

A Case is one fault that the scripted engine commits, in the form its scripts take. `phase` says when:
starting, loading and just ready are reached by a restart, idle by arming the fault, the others by a request.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Literal

import attrs

Phase = Literal["start", "load", "ready", "idle", "prefill", "decode", "cancel", "end"]

WORDS: Final[tuple[Any, ...]] = ("It ", "rains ", {"hex": "f09f"}, {"hex": "98"}, {"hex": "80"}, " on ", "é", "ach.")
"""The answer of every case: one character is spread over three tokens."""
TEXT: Final = "It rains 😀 on éach."
PROMPT_FILLER: Final = "x" * 200


class Sees(Enum):
    """What the user sees. The tests assert it; the value is its wording."""

    NOTHING = "nothing: the answer is whole"
    WAITS = "a sign of life (`loading`, `restarting`), then the whole answer"
    GOES_ON = "a pause with a sign of life, then the rest of the answer; the receipt says `resumed`"
    CANCELLED = "the answer ends as cancelled, with what was said"
    POISON = "what was said, then the error `poison_prompt`; other requests are answered"
    DEAD_END = "what was said, all of it by the schema, then the error `constrained_dead_end`, which says where"
    LOST = "what was said, then the error `worker_lost`"
    REFUSED = "503 with the reason, at once; the page offers another try"
    SERVER_GONE = "the connection ends; the page says so and comes back with the next start"
    OTHERS_FINE = "for themselves what they did; everybody else gets the whole answer"


class Recovers(Enum):
    """How the system recovers. The tests assert it; the value is its wording."""

    IGNORED = "the line belongs to nobody: logged and dropped, the worker stays"
    NOT_NEEDED = "nothing to recover from: the worker stays"
    REPLACED = "the worker is replaced by a new one"
    KILLED = "a worker that breaks the protocol is killed and replaced"
    WATCHDOG = "the watchdog misses progress: the worker is killed and replaced"
    LADDER = "SIGTERM, then SIGKILL, and a new worker"
    BACK_OFF = "another try after 0.5, 2 and 8 s; the fourth death means `failed` until somebody asks again"
    REFUSED_START = "another try after 0.5, 2, 8, then every 30 s, without end; the page stays up"
    UNTOUCHED = "time in which the main process did not run counts for no deadline; the worker stays"
    LEFT_OUT = "once nobody needs it, the worker is replaced by one without the draft; this is no death"
    OVERDUE = "it works on unseen, at most as long as a load took; then the worker is replaced, which is no death"
    CANCELS = "the turn cancels itself; the worker is idle again"
    GUARD = "the guard kills the worker's group; the next start works"


@attrs.frozen(kw_only=True)
class Case:
    """One scripted fault. do: fields of the fault, more than one if several are committed at one place."""

    name: str
    phase: Phase
    do: tuple[dict[str, Any], ...]

    @property
    def is_slow(self) -> bool:
        """Only in the full run: three starts of a worker, for a kind of death that the other phases have too."""
        return self.phase in ("start", "ready") and self.name.startswith(("sigsegv", "exit0"))


@attrs.frozen(kw_only=True)
class Row:
    """One line of the table."""

    fault: str
    sees: Sees
    recovers: Recovers
    proof: tuple[str, ...]
    cases: tuple[Case, ...] = ()


def _case(phase: Phase, name: str, *do: dict[str, Any]) -> Case:
    return Case(name=f"{name}-{phase}", phase=phase, do=do)


_DEATHS: Final[dict[str, dict[str, Any]]] = {
    "sigkill": {"do": "signal", "signal": "SIGKILL"},
    "sigsegv": {"do": "signal", "signal": "SIGSEGV"},
    "exit0": {"do": "exit", "status": 0},
    "exit1": {"do": "exit", "status": 1},
}
_BROKEN_LINES: Final[dict[str, dict[str, Any]]] = {
    "garbage": {"do": "garbage_line"},
    "half-line-and-on": {"do": "half_line"},
    "100-MB-line": {"do": "huge_line"},
    "invalid-utf8": {"do": "invalid_utf8"},
    "empty-line": {"do": "empty_line"},
}
_SCRIPTED: Final = "test_catalog::test_the_user_sees_what_the_table_says"
_REAL: Final = "test_real_worker::test_the_real_worker_is_hurt"


def _deaths(*phases: Phase) -> tuple[Case, ...]:
    return tuple(_case(phase, name, do) for phase in phases for name, do in _DEATHS.items())


ROWS: Final[tuple[Row, ...]] = (
    Row(
        fault="The worker dies (SIGKILL, SIGSEGV, exit 0, exit 1) while starting, while loading or just ready",
        sees=Sees.WAITS,
        recovers=Recovers.REPLACED,
        proof=(_SCRIPTED, _REAL, "test_real_worker::test_a_kill_in_the_load_is_no_proof_against_the_model"),
        cases=_deaths("start", "load", "ready"),
    ),
    Row(
        fault="It dies while idle, also between two turns of a session",
        sees=Sees.NOTHING,
        recovers=Recovers.REPLACED,
        proof=(_SCRIPTED, _REAL, "test_queue::test_a_death_between_two_turns_is_not_seen"),
        cases=_deaths("idle"),
    ),
    Row(
        fault="It dies in prefill or decode, also inside a character",
        sees=Sees.GOES_ON,
        recovers=Recovers.REPLACED,
        proof=(
            _SCRIPTED,
            _REAL,
            "test_continuation::test_nothing_sent_is_repeated_changed_or_lost",
            "../actors/test_resume::test_a_death_before_any_token_loses_nothing",
            "../actors/test_resume::test_a_death_inside_a_stop_candidate_still_matches",
        ),
        cases=_deaths("prefill", "decode"),
    ),
    Row(
        fault="It dies, or reports that it must end, while a cancel is under way",
        sees=Sees.CANCELLED,
        recovers=Recovers.REPLACED,
        proof=(_SCRIPTED, _REAL),
        cases=(*_deaths("cancel"), _case("cancel", "fatal-error", {"do": "error_fatal"})),
    ),
    Row(
        fault="It says that its engine is lost",
        sees=Sees.GOES_ON,
        recovers=Recovers.REPLACED,
        proof=(_SCRIPTED, _REAL),
        cases=(_case("decode", "fatal-error", {"do": "error_fatal"}),),
    ),
    Row(
        fault="Its engine's process dies at any moment of a request, also while it is tokenised",
        sees=Sees.GOES_ON,
        recovers=Recovers.REPLACED,
        proof=(
            "test_engine_kills::test_a_kill_at_any_moment_fails_no_answer",
            "test_engine_kills::test_an_engine_that_dies_while_it_tokenises",
            "test_one_death::test_a_death_is_a_loss_whoever_tells_it",
        ),
    ),
    Row(
        fault="It dies while the queue is full",
        sees=Sees.WAITS,
        recovers=Recovers.REPLACED,
        proof=("test_queue::test_a_death_with_a_full_queue_loses_nobody",),
    ),
    Row(
        fault="It dies three times in one answer",
        sees=Sees.LOST,
        recovers=Recovers.REPLACED,
        proof=("../actors/test_resume::test_two_deaths_are_survived_and_the_third_is_told",),
    ),
    Row(
        fault="It dies twice at the same place of one request",
        sees=Sees.POISON,
        recovers=Recovers.REPLACED,
        proof=("../actors/test_resume::test_a_poison_prompt_ends_and_harms_nobody_else",),
    ),
    Row(
        fault="It dies in a constrained answer (`response_format`, a forced call)",
        sees=Sees.GOES_ON,
        recovers=Recovers.REPLACED,
        proof=(
            "../actors/test_resume::test_a_constrained_answer_goes_on",
            "test_constrained_kills::test_a_killed_answer_of_muse_nano_is_whole",
            "test_constrained_kills::test_a_killed_answer_of_the_built_in_model_is_whole",
        ),
    ),
    Row(
        fault="A constrained answer meets a dead end: no token follows its schema",
        sees=Sees.DEAD_END,
        recovers=Recovers.NOT_NEEDED,
        proof=("../actors/test_resume::test_a_dead_end_is_told_with_its_field",),
    ),
    Row(
        fault="It dies again and again before any token (crash loop)",
        sees=Sees.REFUSED,
        recovers=Recovers.BACK_OFF,
        proof=(
            "test_crash_loop::test_the_fourth_death_is_the_last_and_another_try_works",
            "test_crash_loop::test_the_pauses_between_tries",
        ),
    ),
    Row(
        fault="The system refuses a process, a thread, a descriptor or memory for its start",
        sees=Sees.WAITS,
        recovers=Recovers.REFUSED_START,
        proof=(
            "../actors/test_refusals::test_starts_that_are_refused_are_tried_again",
            "../actors/test_refusals::test_refused_threads_are_tried_again",
            "../actors/test_refusals::test_a_worker_that_gets_no_room_is_tried_again",
        ),
    ),
    Row(
        fault="Requests that kill it, one after the other",
        sees=Sees.POISON,
        recovers=Recovers.REPLACED,
        proof=("test_one_death::test_requests_that_kill_never_take_the_model_from_others",),
    ),
    Row(
        fault="The main process is stopped or starved for a while, in any phase, with requests sent meanwhile",
        sees=Sees.NOTHING,
        recovers=Recovers.UNTOUCHED,
        proof=(
            "test_absence::test_in_every_phase",
            "test_absence::test_a_stopped_server_goes_on",
            "../front/test_absence::test_whole_requests_of_many_connections",
            "../unit/test_attention::test_an_absence_is_no_fault_of_the_worker",
        ),
    ),
    Row(
        fault="What another try cannot change (no model file, a broken one)",
        sees=Sees.REFUSED,
        recovers=Recovers.NOT_NEEDED,
        proof=("../actors/test_supervisor::test_a_load_that_cannot_work_fails_with_the_reason",),
    ),
    Row(
        fault="Slow start",
        sees=Sees.WAITS,
        recovers=Recovers.NOT_NEEDED,
        proof=(_SCRIPTED, "../actors/test_sessions::test_a_request_waits_for_a_loading_model"),
        cases=(_case("load", "slow", {"do": "delay", "ms": 3500}),),
    ),
    Row(
        fault="Garbage, half a line, a 100 MB line, invalid UTF-8 or an empty line on its output, in an answer",
        sees=Sees.GOES_ON,
        recovers=Recovers.KILLED,
        proof=(_SCRIPTED,),
        cases=tuple(_case(p, name, do) for p in ("prefill", "decode") for name, do in _BROKEN_LINES.items()),
    ),
    Row(
        fault="The same before it is ready",
        sees=Sees.WAITS,
        recovers=Recovers.KILLED,
        proof=(_SCRIPTED,),
        cases=tuple(_case("load", name, do) for name, do in _BROKEN_LINES.items()),
    ),
    Row(
        fault="The same while it is idle",
        sees=Sees.NOTHING,
        recovers=Recovers.KILLED,
        proof=(_SCRIPTED,),
        cases=tuple(_case("idle", name, _BROKEN_LINES[name]) for name in ("garbage", "invalid-utf8", "100-MB-line")),
    ),
    Row(
        fault="It says ready twice",
        sees=Sees.GOES_ON,
        recovers=Recovers.KILLED,
        proof=(_SCRIPTED,),
        cases=(_case("decode", "ready-twice", {"do": "ready_twice"}),),
    ),
    Row(
        fault="It closes its output and lives on; its own child holds the pipe open after its death",
        sees=Sees.GOES_ON,
        recovers=Recovers.KILLED,
        proof=(_SCRIPTED,),
        cases=(
            _case("decode", "closed-stdout", {"do": "close_stdout"}, {"do": "hang", "request": True}),
            _case("prefill", "closed-stdout", {"do": "close_stdout"}, {"do": "hang", "request": True}),
            _case("decode", "grandchild", {"do": "grandchild"}, {"do": "exit", "status": 1}),
        ),
    ),
    Row(
        fault="Events of an unknown kind or for unknown requests, `done` twice, tokens after `done`",
        sees=Sees.NOTHING,
        recovers=Recovers.IGNORED,
        proof=(_SCRIPTED,),
        cases=(
            _case("decode", "unknown-event", {"do": "unknown_event"}),
            _case("decode", "unknown-request", {"do": "unknown_request"}),
            _case("prefill", "unknown-request", {"do": "unknown_request"}),
            _case("end", "done-twice", {"do": "duplicate_done"}),
            _case("end", "tokens-after-done", {"do": "tokens_after_done"}),
        ),
    ),
    Row(
        fault="6 MB on stderr; a print on stdout",
        sees=Sees.NOTHING,
        recovers=Recovers.NOT_NEEDED,
        proof=(_SCRIPTED,),
        cases=tuple(
            _case(phase, name, {"do": do})
            for phase in ("load", "decode")
            for name, do in (("stderr-flood", "stderr_flood"), ("print", "print_stdout"))
        ),
    ),
    Row(
        fault="It hangs or is stopped (SIGSTOP) while loading",
        sees=Sees.WAITS,
        recovers=Recovers.WATCHDOG,
        proof=(
            "test_stopped::test_a_stopped_worker_is_found",
            "test_stopped::test_a_stopped_real_worker_is_found",
            "../actors/test_hangs::test_a_hang_in_load_is_ended_and_tried_again",
        ),
    ),
    Row(
        fault="It hangs or is stopped while idle",
        sees=Sees.NOTHING,
        recovers=Recovers.WATCHDOG,
        proof=(
            "test_stopped::test_a_stopped_worker_is_found",
            "test_stopped::test_a_stopped_real_worker_is_found",
            "../actors/test_hangs::test_a_stopped_process_is_found_while_idle",
        ),
    ),
    Row(
        fault="It hangs or is stopped in prefill or decode, half a line written or not; only its engine is stopped",
        sees=Sees.GOES_ON,
        recovers=Recovers.WATCHDOG,
        proof=(
            "test_stopped::test_a_stopped_worker_is_found",
            "test_stopped::test_half_a_line_and_silence",
            "test_stopped::test_a_stopped_real_worker_is_found",
            "../actors/test_hangs::test_a_hang_while_busy_is_ended_and_the_answer_goes_on",
        ),
    ),
    Row(
        fault="It does not obey a cancel, or is stopped when one comes",
        sees=Sees.CANCELLED,
        recovers=Recovers.LADDER,
        proof=(
            "test_stopped::test_a_cancel_ends_a_stopped_worker",
            "test_stopped::test_a_cancel_ends_a_stopped_real_worker",
            "../actors/test_hangs::test_a_cancel_that_is_ignored_climbs_the_ladder",
        ),
    ),
    Row(
        fault="It does not read its input, so that the pipe fills",
        sees=Sees.GOES_ON,
        recovers=Recovers.KILLED,
        proof=("test_stopped::test_a_worker_that_does_not_read_is_replaced",),
    ),
    Row(
        fault="Its draft costs more than it gives",
        sees=Sees.NOTHING,
        recovers=Recovers.LEFT_OUT,
        proof=(
            "test_real_draft::test_a_draft_that_costs_more_than_it_gives_is_left_out",
            "../actors/test_draft::test_a_running_answer_ends_first",
            "../actors/test_draft::test_those_that_wait_go_first",
        ),
    ),
    Row(
        fault="ExecuTorch's own worker dies in an answer (`--engine native`)",
        sees=Sees.GOES_ON,
        recovers=Recovers.REPLACED,
        proof=(
            "../native/test_server::test_a_crash_goes_on_where_it_stopped",
            "../native/test_recital::test_a_killed_recital_is_word_for_word",
            "../native/test_cancel::test_a_death_is_told_and_leaves_nobody",
        ),
    ),
    Row(
        fault="It writes a line that nobody asked for, that is none of its protocol, or that answers something else",
        sees=Sees.GOES_ON,
        recovers=Recovers.REPLACED,
        proof=(
            "../native/test_cancel::test_a_line_that_nobody_asked_for_ends_the_engine",
            "../native/test_exchange::test_the_answer_to_another_command_ends_the_engine",
            "../native/test_exchange::test_a_fault_of_ours_within_an_answer_ends_the_engine",
        ),
    ),
    Row(
        fault="It cannot be told to stop, or does not, after a cancel",
        sees=Sees.CANCELLED,
        recovers=Recovers.OVERDUE,
        proof=(
            "../native/test_server::test_what_cannot_be_stopped_is_replaced_and_no_fault_of_the_model",
            "../native/test_cancel::test_what_does_not_end_has_the_worker_replaced",
            "../native/test_races::test_cancels_race_the_end",
        ),
    ),
    Row(
        fault="Cancel by id: queued, waiting for the model, in prefill, in decode, while resuming",
        sees=Sees.CANCELLED,
        recovers=Recovers.CANCELS,
        proof=("test_cancel::test_cancel_in_every_phase", "test_cancel::test_cancel_racing_with_the_end"),
    ),
    Row(
        fault="The client leaves in any of these phases, also before the headers and in a silent prefill",
        sees=Sees.OTHERS_FINE,
        recovers=Recovers.CANCELS,
        proof=("test_leaving::test_a_client_that_leaves_frees_its_place",),
    ),
    Row(
        fault="200 clients at once, half of them leave; readers that are slow or do not read at all",
        sees=Sees.OTHERS_FINE,
        recovers=Recovers.CANCELS,
        proof=(
            "test_crowd::test_half_of_200_clients_leave",
            "test_crowd::test_slow_readers_and_a_death",
            "../api/test_slow_reader::test_a_slow_reader_costs_only_its_text",
        ),
    ),
    Row(
        fault="The server is stopped (SIGTERM) in any phase",
        sees=Sees.SERVER_GONE,
        recovers=Recovers.GUARD,
        proof=("test_parent::test_shutdown_in_every_phase", "test_cancel::test_shutdown_ends_every_reply"),
    ),
    Row(
        fault="The server is killed (SIGKILL), the worker running or stopped",
        sees=Sees.SERVER_GONE,
        recovers=Recovers.GUARD,
        proof=(
            "test_parent::test_the_worker_dies_with_its_server",
            "test_parent::test_the_real_worker_dies_with_its_server",
        ),
    ),
)


def cases() -> list[tuple[Row, Case]]:
    """Every scripted case with its row."""
    return [(row, case) for row in ROWS for case in row.cases]


def markdown_table() -> str:
    """The table as ARCHITECTURE.md shows it."""
    lines = ["| fault | what the user sees | how it recovers |", "|---|---|---|"]
    lines += [f"| {row.fault} | {row.sees.value} | {row.recovers.value} |" for row in ROWS]
    return "\n".join(lines)
