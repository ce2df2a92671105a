"""The SessionManager actor: the queue, one Turn task for each request, cancellation."""
