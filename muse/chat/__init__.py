"""From messages to prompt segments, and from model text to visible text. No I/O, no trio."""
