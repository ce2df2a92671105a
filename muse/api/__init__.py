"""The OpenAI-shaped surface as pure data: request checks, response bodies, metrics. No I/O, no trio."""
