"""The HTTP front: sockets, connection rules, security checks, static files, SSE encoding, routes.

It asks the other actors and is asked nothing. Connection rules live in `serve` and `connection`, request
rules in `gate` and `security`; Quart sees only requests that passed both.
"""
