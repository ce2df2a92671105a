"""Chaos run: clients of every kind against a real server while random processes of its tree get random signals.

    python -m tests.faults.chaos --minutes 30 --seed 1

Every answer gets one verdict: complete and right, ended by an error that `rules.py` names for its situation, or a
failure, of which everything known is written to a folder. Afterwards no process, descriptor or memory may be left over.

| module | what |
|---|---|
| `reading.py` | an answer as its stream or body spells it; broken streams |
| `client.py` | one HTTP client: whole answers, streams, detached replies read in parts |
| `known.py` | what is asked, and how an answer is told to be right |
| `answers.py`, `cuts.py` | the scenarios: questions of each kind; cancels, lost connections, ended sessions |
| `processes.py`, `killer.py` | the server's process tree, and who gets which signal |
| `watcher.py`, `probe.py` | the worker's states and the main process over time; latencies of the page |
| `rules.py` | which errors may occur, and when |
| `log.py` | verdicts, the records of failures, the summary |
| `run.py` | one run from start to end |
"""
