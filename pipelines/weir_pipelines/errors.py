"""The errors of the pipelines, as sentences for people."""


class PipelineError(Exception):
    """Base of what the pipelines raise."""


class InputError(PipelineError):
    """An input that cannot be right; the message names file, row and column."""


class SourceError(PipelineError):
    """A server that does not give its history."""


class StoreError(PipelineError):
    """A folder of tables that cannot be read or written."""
