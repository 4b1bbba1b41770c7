"""Where Helm comes from."""

from __future__ import annotations

import pytest

from tests.api.assets import MissingProgramError
from tests.helm import program
from tests.helm.program import find_or_build_helm


def test_the_helm_that_is_named_is_taken(tmp_path):
    given = tmp_path / "helm"
    given.touch()

    assert find_or_build_helm({"HELM": str(given)}) == given


def test_a_helm_that_is_named_and_not_there_is_refused(tmp_path):
    with pytest.raises(MissingProgramError, match="expected Helm at HELM="):
        find_or_build_helm({"HELM": str(tmp_path / "helm")})


def test_a_helm_of_another_major_version_is_passed_over(tmp_path, monkeypatch):
    other = tmp_path / "helm"
    other.write_text("#!/bin/sh\necho v4.0.0\n")
    other.chmod(0o755)
    monkeypatch.setattr(program, "_REPOSITORY", tmp_path)
    monkeypatch.setenv("PATH", "")

    with pytest.raises(MissingProgramError, match=r"Go was not found.*name a Helm 3 in HELM"):
        find_or_build_helm({"PATH": str(tmp_path)})
