"""Set-up and launch, from the standard library alone: this package runs before anything is installed.

It must start on Python 3.9, the one that a bare Mac has; everything that is set up runs on 3.11 or newer.

Every stage of the set-up (`bootstrap/stages/`) answers two questions. `is_ready()`: does what it makes match what it
is made from (lock files, versions)? Cheap, offline, writes nothing. `make()`: build it beside the old one, check it,
then put it in place and leave a stamp. A stage killed at any instant therefore leaves either the old result, or
none, and the next set-up starts that stage anew.
"""
