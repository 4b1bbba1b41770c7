"""Changes a running job without losing a record: the journal, and the engine that executes it."""
