"""Which versions of Flink Weir runs."""

from __future__ import annotations

import pytest

from weir_operator.errors import PermanentError
from weir_operator.flink.versions import refuse_old_version


@pytest.mark.parametrize("version", ["1.17.2", "1.19.0", "1.9"])
def test_an_old_flink_is_refused_with_its_version(version):
    with pytest.raises(PermanentError, match=f"expected Flink 1.20 or newer, got {version};"):
        refuse_old_version(version)


@pytest.mark.parametrize("version", ["1.20.0", "2.0.2", "2.3-SNAPSHOT", "<unknown>"])
def test_a_newer_flink_and_one_without_a_version_are_taken(version):
    refuse_old_version(version)
