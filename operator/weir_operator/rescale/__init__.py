"""Changing what a job runs on without losing a record: the journal and the engine that walks it."""
