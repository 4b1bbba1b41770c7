"""Where the programs of the API tests come from."""

from __future__ import annotations

import pytest

from tests.api import assets
from tests.api.assets import MissingProgramError, find_or_build_assets


def test_a_folder_that_is_given_is_taken_as_it_is(tmp_path):
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).touch()

    found = find_or_build_assets({"KUBEBUILDER_ASSETS": str(tmp_path)})

    assert found.etcd == tmp_path / "etcd"
    assert found.kube_apiserver == tmp_path / "kube-apiserver"


def test_a_folder_without_the_programs_is_refused_by_name(tmp_path):
    (tmp_path / "etcd").touch()

    with pytest.raises(MissingProgramError, match="expected kube-apiserver in KUBEBUILDER_ASSETS"):
        find_or_build_assets({"KUBEBUILDER_ASSETS": str(tmp_path)})


def test_without_go_the_remedy_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(assets, "_REPOSITORY", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(MissingProgramError, match=r"golang-go.*or name a folder"):
        find_or_build_assets({})
