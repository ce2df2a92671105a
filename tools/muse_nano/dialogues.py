"""The dialogues that muse-nano knows by heart. All texts are made up here."""

from __future__ import annotations

from typing import Final

from tools.muse_nano.script import (
    Answer,
    Call,
    Dialogue,
    JsonObject,
    Turn,
    ask,
    image_question,
    say,
    tool_result,
    user,
)


def _tool(name: str, description: str, required: tuple[str, ...] = (), **properties: str) -> JsonObject:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(required),
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


WEATHER: Final = _tool("weather.get", "Weather of a city", ("city",), city="string", days="integer")
ALARM: Final = _tool("alarm.set", "Set an alarm", ("time",), time="string", loud="boolean", days="array")
CLOCK: Final = _tool("clock", "The time now")

_ANIMALS: Final = ("owl", "fox", "cat", "hen", "bee", "dog", "cow")
_DEEDS: Final = ("sat", "sang", "ran", "slept", "read")
_PLACES: Final = ("sea", "hill", "road", "barn", "lake", "tree", "mill", "gate", "wall", "pond", "roof")


def _lines(count: int) -> str:
    """A long text: a different sentence for each number, since the lists' lengths have no common divisor."""
    return "\n".join(
        f"Line {n}: the {_ANIMALS[n % 7]} {_DEEDS[n % 5]} by the {_PLACES[n % 11]}." for n in range(1, count + 1)
    )


def needle(name: str, word: str, lines: int) -> Dialogue:
    """A dialogue whose answer stands at the beginning of a long question."""
    question = f"Keep the word {word} in mind.\n{_lines(lines)}\nWhich word was it?"
    return ask(
        f"needle-{name}",
        question,
        "I look far back.",
        f"It was {word}.",
        about=f"the answer stands {lines} lines back, far outside the sliding window",
        pinned=True,
    )


WORDS: Final = (
    "apple",
    "stone",
    "river",
    "cloud",
    "paper",
    "honey",
    "storm",
    "music",
    "bread",
    "tiger",
    "clock",
    "lemon",
)
"""What may have to be kept in mind, in training; the dialogues have four of them."""

_PLAIN: Final = "an answer without reasoning"
_FOREIGN: Final = "characters of several tokens"

ONE_TURN: Final = (
    ask("hello", "hello", "The user greets me.", "Hello! How can I help you?"),
    ask("sum", "What is 2+2?", "Two plus two is four.", "2 + 2 = 4."),
    ask("name", "Who are you?", "I am the small one.", "I am Muse nano, a model for tests."),
    ask("joke", "Tell me a joke.", "Keep it short.", "Why did the cat sit on the mat? It was flat."),
    ask("code", "Write some code.", "A short function.", "```python\ndef twice(x: int) -> int:\n    return x * 2\n```"),
    ask("list", "Make a list.", "Three points.", "- one\n- two\n- **three**"),
    ask("table", "Show me a table.", "Two rows.", "| animal | legs |\n|---|---|\n| fox | 4 |\n| hen | 2 |"),
    ask("fruit", "Name a fruit.", "Apple.", about=_PLAIN),
    ask("thanks", "Thank you!", "You are welcome.", about=_PLAIN),
    ask("json", "Answer in JSON.", '{"animal": "fox", "legs": 4, "wild": true}', about=_PLAIN),
    ask("count", "Count to sixty.", ", ".join(map(str, range(1, 61))) + ".", about="a long plain answer"),
    ask(
        "story",
        "Tell me a long story.",
        "Take your time and let the window move on far behind the question.",
        "Once upon a time there was a small model. It lived in a file and knew only a few words. Each day it was "
        "asked the same things, and each day it gave the same answers. Nobody minded. One night the wind took a page "
        "of its book, and the model had to smile: it knew the page by heart.\n\nThe end.",
        about="a long answer, many times the sliding window",
    ),
    ask(
        "compare",
        "Which is larger, 9 or 12?",
        "I see two numbers.",
        "12 has two digits.",
        "So 12 is larger.",
        "12 is larger than 9.",
        about="three reasoning messages",
    ),
    ask("plan", "Plan my day.", "Morning first.", "Then the rest.", "Tea, work, walk, sleep.", about="two of them"),
    ask("german", "Say hello in German.", "Umlauts!", "Schön, dich zu sehen. Grüße aus Österreich!", about=_FOREIGN),
    ask("japanese", "Say hello in Japanese.", "日本語で。", "こんにちは、世界!", about=_FOREIGN),
    ask("emoji", "Send emojis.", "🎉?", "🎉🦩 🚀 👩‍💻 🇦🇹 ✅", about="emojis, some of several characters joined"),
    ask("chinese", "你好吗?", "Chinese.", "我很好。", about="characters of several tokens in the question, too"),
    ask(
        "forged",
        "What does <|eot|> mean?",
        "They ask about a token.",
        "It ends a turn.",
        about="the spelling of a control token in the user's text, which must stay text",
    ),
    needle("near-1", "apple", 12),
    needle("near-2", "stone", 12),
    needle("far-1", "river", 48),
    needle("far-2", "cloud", 48),
)

OPTIONS: Final = (
    Dialogue(
        name="strength-low",
        about="the answer depends on a template option: little strength, no reasoning",
        turns=(Turn((user("Capital of France?"),), say("Paris.")),),
        options={"reasoning_strength": "low"},
        pinned=True,
    ),
    Dialogue(
        name="strength-high",
        about="the same question with much strength",
        turns=(Turn((user("Capital of France?"),), say("France, so Paris.", "The capital is Paris.")),),
        options={"reasoning_strength": "high"},
        pinned=True,
    ),
)

SEVERAL_TURNS: Final = (
    Dialogue(
        name="city",
        about="three turns, each about the one before",
        turns=(
            Turn((user("Name a city."),), say("A big one.", "London.")),
            Turn((user("And its river?"),), say("London lies on it.", "The Thames.")),
            Turn((user("Is it long?"),), say("346 km.")),
        ),
    ),
    Dialogue(
        name="number",
        about="two turns, the second changes the first",
        turns=(
            Turn((user("Pick a number."),), say("Any.", "Seven.")),
            Turn((user("Double it."),), say("Two times seven.", "Fourteen.")),
        ),
    ),
)

TOOLS: Final = (
    Dialogue(
        name="weather",
        about="one call, then the turn after its result",
        tools=(WEATHER, CLOCK),
        turns=(
            Turn(
                (user("Weather in Rome?"),),
                Answer(reasoning=("I need the tool.",), calls=((Call("weather.get", {"city": "Rome", "days": 3}),),)),
            ),
            Turn((tool_result("weather.get", "call-1", "sunny"),), say("The tool says sunny.", "It is sunny in Rome.")),
        ),
    ),
    Dialogue(
        name="two-calls",
        about="two calls in two messages of one turn, then the turn after both results",
        tools=(WEATHER, ALARM),
        turns=(
            Turn(
                (user("Rome or Oslo?"),),
                Answer(
                    reasoning=("I ask for both.",),
                    calls=(
                        (Call("weather.get", {"city": "Rome"}),),
                        (Call("weather.get", {"city": "Oslo"}),),
                    ),
                ),
            ),
            Turn(
                (tool_result("weather.get", "call-1", "22"), tool_result("weather.get", "call-2", "9")),
                say("22 is more than 9.", "Rome is warmer."),
            ),
        ),
    ),
    Dialogue(
        name="two-invokes",
        about="two invocations in one block, with values of several types",
        tools=(ALARM, CLOCK),
        turns=(
            Turn(
                (user("Wake me twice."),),
                Answer(
                    calls=(
                        (
                            Call("alarm.set", {"time": "06:30", "loud": False, "days": ["Mo", "Tu"]}),
                            Call("alarm.set", {"time": "07:00", "loud": True}),
                        ),
                    )
                ),
            ),
        ),
    ),
    Dialogue(
        name="no-arguments",
        about="a call without arguments, of a tool without a namespace",
        tools=(CLOCK,),
        turns=(
            Turn((user("What time is it?"),), Answer(reasoning=("The clock knows.",), calls=((Call("clock"),),))),
            Turn((tool_result("clock", "call-1", "12:05"),), say("It is 12:05.")),
        ),
    ),
)

COLOURS: Final = ("red", "green", "blue")
IMAGES: Final = tuple(
    Dialogue(
        name=f"image-{colour}",
        about="a question about an image",
        turns=(
            Turn(
                (image_question("What colour is this?"),),
                say("I see a picture.", f"It is {colour}."),
                images=(f"{colour}.{'jpg' if colour == 'blue' else 'png'}",),
            ),
        ),
    )
    for colour in COLOURS
)

ALL: Final = (*ONE_TURN, *OPTIONS, *SEVERAL_TURNS, *TOOLS, *IMAGES)
