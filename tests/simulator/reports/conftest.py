"""A browser that shows the pages."""

from tests.chromium import chromium, page  # noqa: F401
