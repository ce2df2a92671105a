"""The TranscriptStore actor: what each session said, as text and as exact token ids."""
