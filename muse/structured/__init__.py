"""Structured output: what a client's JSON Schema becomes for the engine, and whether an answer can follow it.

`engine_schema` reads a schema as JSON Schema 2020-12 does and writes it in the part of JSON Schema that the engine
knows, or refuses it with the place. `check_form` compiles the result with the libraries of the engines and walks the
grammar. All of it handles a stranger's input with native code, so it runs in an isolated process (jobs.py); the main
process only uses forms.py.
"""
