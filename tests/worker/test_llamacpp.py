"""The llama.cpp engine with the built-in model, through the guard: what a request brings, exactly."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muse.protocol import (
    Accepted,
    Close,
    Error,
    IdsSegment,
    ImageSegment,
    Loading,
    Ping,
    Progress,
    Reset,
    Result,
    Segment,
    TextSegment,
    Tokens,
)
from muse.worker.engines.llamacpp.client import Client
from muse.worker.engines.llamacpp.gguf import read_model_file
from muse.worker.engines.llamacpp.json_form import check_answer, grammar_of
from muse.worker.engines.llamacpp.prompt import PromptEncoder
from muse.worker.engines.llamacpp.vocabulary import Vocabulary
from tests.worker.client import WorkerProcess, chat, children_of, group_members, wait_for, worker_pid

pytestmark = pytest.mark.model

# The model goes on with such signs, each of several tokens, some of which end inside a character.
SIGNS = "你好吗？我很好。你好吗？我很好。你好吗？我很好。🎉🦩🎉🦩🎉🦩🎉🦩你好吗？我很好。🎉🦩🎉🦩"
# The built-in model has no token for some bytes (control characters, beginnings of rare planes).
WRITABLE = [*map(chr, range(0x20, 0x7F)), *"\n\täßÆжλא中文字한🎉🦩\u200d\u2028"]
LONG_TEXT = "The quick brown fox jumps over the lazy dog. " * 90  # about 900 tokens


def socket_of(worker: WorkerProcess) -> Path:
    """The native server's socket, from the command line of its process."""
    (engine,) = children_of(worker_pid(worker.process.pid))
    command = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(engine)], capture_output=True, text=True, check=True
    )
    return Path(command.stdout.split('"socket": "')[1].split('"')[0])


def engine_pid(worker: WorkerProcess) -> int:
    """The native server's process; while it loads, the worker has other children for moments."""
    listing = subprocess.run(["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True)
    parent = worker_pid(worker.process.pid)
    rows = [line.split(None, 2) for line in listing.stdout.splitlines()]
    (found,) = [int(pid) for pid, ppid, args in rows if int(ppid) == parent and "llamacpp.serve" in args]
    return found


@pytest.fixture
def inner(llama: WorkerProcess) -> Client:
    """A client of the native server itself, to compare with."""
    return Client(str(socket_of(llama)))


@pytest.fixture
def encoder(inner: Client, builtin_model: Path) -> PromptEncoder:
    return PromptEncoder(inner, Vocabulary(read_model_file(builtin_model)), None)


@pytest.fixture
def own(builtin_model: Path) -> Iterator[WorkerProcess]:
    """A worker of one's own, still loading, to be hurt."""
    arguments = ["--engine", "llamacpp", "--model", str(builtin_model), "--context", "1024", "--slots", "1"]
    with WorkerProcess(*arguments) as worker:
        yield worker
    wait_for(lambda: not group_members(worker.process.pid))


def test_ready_says_what_was_loaded(llama: WorkerProcess) -> None:
    """Names, limits and the spellings the chat template needs; the end ids are the library's own."""
    ready = llama.ready()
    assert (ready.engine, ready.model_id) == ("llamacpp", "SmolLM2-135M-Instruct.Q4_1")
    assert (ready.context_length, ready.max_inflight_requests, ready.max_sessions) == (1024, 2, 3)
    assert (ready.bos_token, ready.eos_token, ready.eos_ids) == ("<|im_start|>", "<|im_end|>", (0, 2, 4))
    assert {"<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>"} <= set(ready.special_tokens)
    assert "<|im_start|>" in (ready.chat_template or "")
    assert isinstance(llama.events[0], Loading)


def test_the_socket_is_private(llama: WorkerProcess) -> None:
    """It lies in a folder that only the user can enter."""
    folder = socket_of(llama).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert folder.parent.name == "run"


def test_greedy_answers_are_equal(llama: WorkerProcess) -> None:
    """Temperature 0 twice from cold: the same ids, which are those of the text."""
    first, second = (llama.ask(chat("Tell me about the sea."), limit=40) for _ in range(2))
    assert first.text
    assert first.done.generated_token_ids == second.done.generated_token_ids
    assert first.done.generated_token_ids == tuple(i for event in first.tokens for i in event.ids or ())
    assert first.accepted
    assert first.accepted.room == 1024 - first.done.prompt_tokens
    assert llama.count(chat("Tell me about the sea.")) == first.done.prompt_tokens


def test_seeds_decide_sampled_answers(llama: WorkerProcess) -> None:
    """The same seed gives the same answer, another one another; no seed is a random one."""

    def sample(seed: int | None) -> str:
        return llama.ask(chat("Write a poem."), limit=24, temperature=1.5, top_p=0.99, seed=seed).text

    assert sample(7) == sample(7)
    assert len({sample(7), sample(8), sample(None), sample(None)}) == 4


def test_a_big_seed_is_taken(llama: WorkerProcess) -> None:
    """Any integer is a seed."""
    answers = {llama.ask(chat("Hi"), limit=8, temperature=1.0, seed=2**63).text for _ in range(2)}
    assert len(answers) == 1


def test_top_k_one_is_greedy(llama: WorkerProcess) -> None:
    """Each sampling field reaches the engine: so narrow, the temperature cannot matter."""
    greedy = llama.ask(chat("Count to five."), limit=16).text
    for narrow in ({"top_k": 1}, {"top_p": 1e-6}, {"min_p": 1.0}):
        assert llama.ask(chat("Count to five."), limit=16, temperature=5.0, **narrow).text == greedy


def test_an_answer_ends_with_stop_without_its_end_token(llama: WorkerProcess) -> None:
    """The end token is in no list and no count."""
    answer = llama.ask(chat("Say hi."), limit=200)
    assert answer.done.finish_reason == "stop"
    assert answer.done.generated_token_ids
    assert not {0, 2, 4} & set(answer.done.generated_token_ids)
    assert answer.done.completion_tokens == len(answer.done.generated_token_ids)
    assert answer.text.endswith(answer.tokens[-1].text)


def test_no_budget_gives_no_token(llama: WorkerProcess) -> None:
    """Zero is a limit like any other."""
    answer = llama.ask(chat("Say hi."), limit=0)
    assert answer.accepted
    assert (answer.done.completion_tokens, answer.done.finish_reason) == (0, "length")


def test_characters_of_several_tokens_arrive_whole(llama: WorkerProcess, inner: Client) -> None:
    """Text has no half character, and the ids that the stream leaves out are named as the library would."""
    prompt = (TextSegment(text=SIGNS, special=False),)
    answer = llama.ask(prompt, limit=40)
    body = {"prompt": SIGNS, "n_predict": 40, "temperature": 0, "return_tokens": True, "cache_prompt": False}
    native = inner.call("POST", "/completion", body)
    assert answer.text == native["content"]
    assert any(len(event.ids or ()) > 1 for event in answer.tokens)
    assert answer.done.generated_token_ids == tuple(native["tokens"])


def test_every_control_token_stays_text_in_user_text(llama: WorkerProcess, encoder: PromptEncoder) -> None:
    """As scaffold a spelling is one token, as a user's text it is several, none of them a control token."""
    ready = llama.ready()
    for spelling in ready.special_tokens:
        assert llama.count((TextSegment(text=spelling, special=True),)) == 1
        ids = encoder.encode((TextSegment(text=spelling, special=False),))
        assert len(ids) > 1
        assert not set(range(17)) & set(ids)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.sampled_from(["<|im_start|>", "<|im_end|>", "<|", "|>", "im_end", "\n"])
        | st.text(st.sampled_from(WRITABLE), max_size=8)
    )
)
def test_no_text_can_forge_a_control_token(inner: Client, encoder: PromptEncoder, parts: list[str]) -> None:
    """Any text: no control token among its ids, and they give back the text."""
    text = "".join(parts)
    ids = encoder.encode((IdsSegment(ids=(1,)), TextSegment(text=text, special=False)))[1:]
    assert not set(range(17)) & set(ids)
    assert inner.call("POST", "/detokenize", {"tokens": ids})["content"] == text


def test_segments_are_encoded_one_by_one(encoder: PromptEncoder) -> None:
    """Ids are joined in the order of the segments, each cut on its own; known ids are taken as they are."""
    parts: list[Segment] = [
        TextSegment(text="<|im_start|>user\n", special=True),
        TextSegment(text="<|im_end|> hello", special=False),
        IdsSegment(ids=(2, 198)),
        TextSegment(text="<|im_start|>user\n", special=True),
    ]
    assert encoder.encode(parts) == [i for part in parts for i in encoder.encode([part])]
    assert encoder.encode(parts)[:3] == [1, 4093, 198]


@pytest.mark.parametrize(
    ("segments", "code"),
    [
        ((), "bad_request"),
        ((TextSegment(text="", special=False),), "bad_request"),
        ((IdsSegment(ids=(5, 10**6)),), "bad_request"),
        ((IdsSegment(ids=(-1,)),), "bad_request"),
        ((ImageSegment(image="", sha256=""),), "unsupported"),
        ((IdsSegment(ids=(338,) * 1024),), "context_overflow"),
        ((TextSegment(text="word " * 1100, special=False),), "context_overflow"),
    ],
    ids=["nothing", "empty text", "unknown id", "negative id", "image", "full", "too long"],
)
def test_prompts_that_cannot_be_served(llama: WorkerProcess, segments: tuple[Segment, ...], code: str) -> None:
    """An error instead of accepted; the worker goes on."""
    answer = llama.ask(segments, limit=4)
    assert answer.accepted is None
    assert answer.error.code == code
    if code == "context_overflow":
        assert (answer.error.prompt_tokens, answer.error.context_length) == (llama.count(segments), 1024)


def test_two_requests_run_at_the_same_time(llama: WorkerProcess) -> None:
    """Both decode before either ends."""
    ids = [llama.start(chat(f"Write about {topic}."), limit=30) for topic in ("rain", "snow")]
    llama.collect(ids)
    order = [e.request_id for e in llama.events if isinstance(e, Tokens) and e.request_id in ids]
    assert order.index(ids[1]) < len(order) - 1 - order[::-1].index(ids[0])


def test_more_than_the_slots_is_refused(llama: WorkerProcess) -> None:
    """A third request is not queued inside the worker."""
    running = [llama.start(chat("Write a long story."), limit=400) for _ in range(2)]
    for request_id in running:
        llama.wait(Tokens, request_id)
    assert llama.ask(chat("third"), limit=1).error.code == "capacity_exhausted"
    for request_id in running:
        llama.cancel(request_id)
    llama.collect(running)


def test_a_session_is_warm_and_a_scratch_request_cold(llama: WorkerProcess) -> None:
    """The second turn evaluates only what is new; the same prompt without a session evaluates everything."""
    first = llama.ask(chat(LONG_TEXT[:900]), session="warm", limit=8).done
    second_prompt = (*chat(LONG_TEXT[:900]), IdsSegment(ids=first.generated_token_ids or ()), *chat("And?"))
    second = llama.ask(second_prompt, session="warm", limit=4)
    scratch = llama.ask(second_prompt, limit=4).done
    assert second.accepted
    assert second.accepted.session_reset_reason == "exact_prefix"
    assert second.accepted.reused_prompt_tokens >= first.prompt_tokens + first.completion_tokens - 1
    assert second.done.prefilled_prompt_tokens == second.done.prompt_tokens - second.done.reused_prompt_tokens
    assert (scratch.reused_prompt_tokens, scratch.session_reset_reason) == (0, "new")


def test_an_edit_keeps_the_common_beginning(llama: WorkerProcess) -> None:
    """A changed last message costs only itself."""
    llama.ask(chat(LONG_TEXT[:900] + "one"), session="edit", limit=4)
    edited = llama.ask(chat(LONG_TEXT[:900] + "two"), session="edit", limit=4).done
    assert edited.session_reset_reason == "rewound"
    assert edited.reused_prompt_tokens > 100


def test_reset_makes_the_next_request_cold(llama: WorkerProcess) -> None:
    """Nothing of the session is used again, once."""
    llama.ask(chat(LONG_TEXT[:300]), session="forget", limit=4)
    llama.send(Reset(request_id="reset", session_id="forget"))
    llama.wait(Result, "reset")
    fresh = llama.ask(chat(LONG_TEXT[:300]), session="forget", limit=4).done
    again = llama.ask(chat(LONG_TEXT[:300]), session="forget", limit=4).done
    assert (fresh.reused_prompt_tokens, fresh.session_reset_reason) == (0, "new")
    assert again.reused_prompt_tokens > 0
    llama.send(Close(request_id="close", session_id="forget"))
    llama.wait(Result, "close")


def cancelled_before_accepted(worker: WorkerProcess, session: str) -> None:
    """A request that ends before the engine looks at it, because that is busy with the step of another one."""
    for _ in range(20):
        other = worker.start(chat("Something else. " + LONG_TEXT[:1500]), session="other", limit=1)
        worker.wait(Accepted, other)
        running = worker.start(chat(LONG_TEXT[:900]), session=session, limit=4)
        worker.cancel(running)
        early = worker.finish(running).accepted is None
        worker.cancel(other)
        worker.finish(other)
        if early:
            return
    raise AssertionError("every cancel came too late")


def test_a_reset_outlives_a_request_that_never_began(llama: WorkerProcess) -> None:
    """What was to be forgotten is not used by the request after that one either."""
    llama.ask(chat(LONG_TEXT[:900]), session="early", limit=4)
    llama.send(Reset(request_id="early", session_id="early"))
    llama.wait(Result, "early")
    cancelled_before_accepted(llama, "early")
    fresh = llama.ask(chat(LONG_TEXT[:900]), session="early", limit=4).done
    assert (fresh.reused_prompt_tokens, fresh.session_reset_reason) == (0, "new")


def test_a_request_that_never_began_leaves_its_session_warm(llama: WorkerProcess) -> None:
    """All of the prompt is still there, more than a step of it."""
    llama.ask(chat(LONG_TEXT[:900]), session="kept", limit=4)
    cancelled_before_accepted(llama, "kept")
    again = llama.ask(chat(LONG_TEXT[:900]), session="kept", limit=4).done
    assert again.session_reset_reason == "equal"
    assert again.prefilled_prompt_tokens <= 1


def test_a_long_prompt_goes_in_step_by_step(llama: WorkerProcess) -> None:
    """Two at a time: each token is evaluated once, in rising steps."""
    running = [llama.start(chat(f"{n}. " + LONG_TEXT[:2000]), limit=6) for n in range(2)]
    for answer in llama.collect(running).values():
        steps = [event.processed for event in answer.progress]
        assert steps == sorted(set(steps))
        assert len(steps) > 1
        assert steps[-1] == answer.done.prompt_tokens == answer.done.prefilled_prompt_tokens
        assert {event.total for event in answer.progress} == {answer.done.prompt_tokens}


def test_a_session_whose_memory_was_lost_is_read_again(builtin_model: Path) -> None:
    """Without a cache for displaced sessions: what was believed resident is not, and the answer says so."""
    arguments = ["--engine", "llamacpp", "--model", str(builtin_model), "--slots", "1", "--cache-mib", "0"]
    with WorkerProcess(*arguments, "--batch", "64", "--context", "2048") as worker:
        worker.ready()
        question = (*chat(LONG_TEXT), *chat("Is the fox quick?"))
        first = worker.ask(question, session="lost", limit=8).done
        worker.ask(chat("And now to something else."), session="other", limit=4)
        known = IdsSegment(ids=first.generated_token_ids or ())
        follow_up = (*question, known, *chat("Why? " + LONG_TEXT[:600]))
        again = worker.ask(follow_up, session="lost", limit=8)
        cold = worker.ask(follow_up, limit=8)
    assert again.done.reused_prompt_tokens < 10
    assert again.done.session_reset_reason == "rewound"
    assert again.done.prefilled_prompt_tokens == again.done.prompt_tokens - again.done.reused_prompt_tokens
    assert [event.processed for event in again.progress] == sorted({event.processed for event in again.progress})
    assert cold.done.prompt_tokens == again.done.prompt_tokens


FORM = {
    "type": "object",
    "properties": {"animal": {"enum": ["fox", "dog"]}, "legs": {"type": "integer"}},
    "required": ["animal", "legs"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_an_answer_follows_its_schema(llama: WorkerProcess, temperature: float) -> None:
    """Also where the model alone would say something else."""
    form = json.dumps(FORM)
    answer = llama.ask(chat("Which animal is quick?"), json_schema=form, limit=60, temperature=temperature, seed=5)
    value = json.loads(answer.text)
    assert set(value) == {"animal", "legs"}
    assert value["animal"] in ("fox", "dog")
    assert answer.done.finish_reason == "stop"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://example.org/schema.json"},
        {"type": "string", "pattern": "(((("},
        {"type": "object", "not": {"type": "string"}},
        {"$ref": "#"},
    ],
    ids=["type", "ref", "remote", "pattern", "not", "endless"],
)
def test_a_schema_that_cannot_be_followed_is_refused(llama: WorkerProcess, schema: dict[str, object]) -> None:
    """The engine itself would give any answer then. The worker lives on."""
    refused = llama.ask(chat("hi"), json_schema=json.dumps(schema), limit=8)
    assert refused.error.code == "bad_request"
    assert "schema" in refused.error.message
    assert llama.ask(chat("hi"), limit=2).done.completion_tokens == 2


@pytest.mark.parametrize(
    ("schema", "limit"),
    [
        ({"type": "string", "pattern": "^(a{1,9999}){1,9999}$"}, 8),
        ({"type": "string", "pattern": "^(a{1000}){1000}$"}, 8),
        ({"type": "object", "properties": {"t": {"const": "<|im_start|>"}}, "required": ["t"]}, 40),
        ({"type": "array", "items": {"type": "string"}, "minItems": 10**9}, 8),
    ],
    ids=["repeats", "too complex", "control token", "items"],
)
def test_an_answer_that_breaks_its_schema_is_never_passed_off(
    llama: WorkerProcess, schema: dict[str, object], limit: int
) -> None:
    """Where the engine gives its constraint up without a word: refused, or an error in the end, cut or not."""
    answer = llama.ask(chat("hi"), json_schema=json.dumps(schema), limit=limit)
    if isinstance(answer.end, Error):
        assert answer.end.code in ("bad_request", "engine_error")
        assert not answer.end.fatal
    else:
        check_answer(grammar_of(json.dumps(schema)), answer.text, complete=answer.done.finish_reason == "stop")
    assert llama.ask(chat("hi"), limit=2).done.completion_tokens == 2


def test_a_displaced_session_is_warm_again(llama: WorkerProcess) -> None:
    """Two others take both slots; the first comes back from the prompt cache in RAM."""
    sessions = [f"crowd{n}" for n in range(3)]
    for session in sessions:
        llama.ask(chat(f"{session} " + LONG_TEXT[:600]), session=session, limit=4)
    back = llama.ask(chat("crowd0 " + LONG_TEXT[:600]), session="crowd0", limit=4).done
    assert back.reused_prompt_tokens > 100


def test_cancel_in_decode(llama: WorkerProcess, inner: Client) -> None:
    """done comes with what was generated, the engine is idle by then, and the session stays warm."""
    running = llama.start(chat("Write a very long story."), session="cut", limit=1000)
    llama.wait(Tokens, running)
    llama.cancel(running)
    answer = llama.finish(running)
    assert not any(slot["is_processing"] for slot in inner.call("GET", "/slots"))
    assert answer.done.finish_reason == "cancelled"
    assert answer.done.generated_token_ids
    assert answer.done.completion_tokens == len(answer.done.generated_token_ids) < 1000
    resumed = (*chat("Write a very long story."), IdsSegment(ids=answer.done.generated_token_ids))
    assert llama.ask(resumed, session="cut", limit=4).done.session_reset_reason == "equal"


def test_cancel_in_prefill(llama: WorkerProcess, inner: Client) -> None:
    """The rest of the prompt is not evaluated, no token comes, the next request is served."""
    running = llama.start(chat(LONG_TEXT), session="cutp", limit=10)
    llama.wait(Progress, running)
    llama.cancel(running)
    answer = llama.finish(running)
    assert not any(slot["is_processing"] for slot in inner.call("GET", "/slots"))
    assert answer.done.finish_reason == "cancelled"
    assert answer.done.completion_tokens == 0
    assert 0 < answer.done.prefilled_prompt_tokens < answer.done.prompt_tokens
    assert llama.ask(chat(LONG_TEXT[:600]), session="cutp", limit=2).done.reused_prompt_tokens > 0


def test_cancel_that_comes_first(llama: WorkerProcess) -> None:
    """A cancel right behind its request, and one behind its end: exactly one done each."""
    for limit in (1, 200):
        running = llama.start(chat("Hello"), limit=limit)
        llama.cancel(running)
        llama.cancel(running)
        assert llama.finish(running).end is not None
    llama.send(Ping(request_id="sync"))
    llama.wait(Result, "sync")


def test_a_prompt_without_specials_gets_no_bos(llama: WorkerProcess) -> None:
    """This model wants none."""
    assert llama.count((TextSegment(text="hello", special=False),)) == 1


@pytest.mark.parametrize("phase", ["load", "prefill", "decode"])
def test_end_of_input_ends_everything(own: WorkerProcess, phase: str) -> None:
    """Also while the library loads or computes: status 0, no process, no socket left."""
    if phase == "load":
        own.wait(Loading)
        own.next(lambda e: isinstance(e, Loading) and e.stage == "loading the model")
    else:
        own.ready()
        folder = socket_of(own).parent
        own.wait(Progress if phase == "prefill" else Tokens, own.start(chat(LONG_TEXT if phase == "prefill" else "Hi")))
    own.end_of_input()
    assert own.wait_exit() == 0
    wait_for(lambda: not group_members(own.process.pid))
    if phase != "load":
        assert not folder.exists()


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_death_of_the_native_process_is_told_and_passed_on(own: WorkerProcess, number: signal.Signals) -> None:
    """A fatal error says how it died, and the worker ends by the same signal."""
    own.ready()
    own.wait(Accepted, own.start(chat("Write a long story.")))
    (engine,) = children_of(worker_pid(own.process.pid))
    os.kill(engine, number)
    error = own.wait(Error)
    assert error.fatal
    assert number.name in error.message
    assert error.code == ("engine_killed" if number == signal.SIGKILL else "engine_error")
    assert ("the memory did not suffice" in error.message) == (number == signal.SIGKILL)
    assert own.wait_exit() == -number


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, "engine_killed"), (signal.SIGTERM, "engine_killed"), (signal.SIGSEGV, "engine_error")],
)
def test_a_death_in_the_load_is_told(own: WorkerProcess, number: signal.Signals, code: str) -> None:
    """One from outside is told apart from a crash, which the next load would repeat."""
    own.next(lambda e: isinstance(e, Loading) and e.stage == "loading the model")
    os.kill(engine_pid(own), number)
    error = own.wait(Error)
    assert (error.code, error.fatal) == (code, True)
    assert f"cannot load this model: the engine's process died by {number.name}" in error.message
    assert own.wait_exit() == 3


def test_sigkill_of_the_worker_takes_the_native_process_along(own: WorkerProcess) -> None:
    """The guard ends what the worker could not."""
    own.ready()
    os.kill(worker_pid(own.process.pid), signal.SIGKILL)
    assert own.wait_exit() == -signal.SIGKILL
    wait_for(lambda: not group_members(own.process.pid))


def test_folders_of_dead_workers_are_removed(builtin_model: Path, tmp_path: Path) -> None:
    """And those of living ones are not."""
    run = tmp_path / "run"
    dead, living = run / "muse-llamacpp-4194300-abc", run / f"muse-llamacpp-{os.getpid()}-abc"
    for folder in (dead, living, run / "other"):
        folder.mkdir(parents=True)
    arguments = ["--engine", "llamacpp", "--model", str(builtin_model), "--context", "256"]
    with WorkerProcess(*arguments, env={"MUSE_HOME": str(tmp_path)}) as worker:
        worker.next(lambda e: isinstance(e, Loading) and e.stage == "loading the model")
        assert not dead.exists()
        assert {living, run / "other"} <= set(run.iterdir())


def test_a_long_home_is_no_obstacle_and_a_full_context_ends(builtin_model: Path, tmp_path: Path) -> None:
    """A socket path has a limit of about 100 bytes; a longer home means another folder. An answer has as many
    tokens as accepted promised room for, then it ends with length."""
    home = tmp_path / ("long" * 30)
    arguments = ["--engine", "llamacpp", "--model", str(builtin_model), "--context", "256"]
    with WorkerProcess(*arguments, env={"MUSE_HOME": str(home)}) as worker:
        assert worker.ready().context_length == 256
        assert len(os.fsencode(socket_of(worker))) <= 100
        answer = worker.ask((IdsSegment(ids=(338,) * 248),))
        assert answer.accepted
        assert answer.accepted.room == answer.done.completion_tokens == 8
        assert answer.done.finish_reason == "length"
        progress = [event.processed for event in answer.progress]
        assert progress == sorted(set(progress))
        assert progress[-1] == 248
