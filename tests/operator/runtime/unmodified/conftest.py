"""The jobs here need none of the others' jar, which other versions of Flink do not compile."""

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def pinned_jar():
    return Path("/no/job.jar")
