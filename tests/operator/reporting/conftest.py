"""A browser that shows the report."""

from tests.chromium import chromium, page  # noqa: F401
