"""The check before a release: each command of a step counts, and helm is the one that is named."""

import shutil
import subprocess

import pytest

HELM = """#!/bin/sh
echo "$1" >> "$(dirname "$0")/asked"
[ "$1" != "$REFUSED" ]
"""


@pytest.fixture
def check(root, run, tmp_path):
    """Run the script in a small repository, with a helm that refuses one of its commands."""

    def run_script(refused):
        for folder in ("scripts", "helm/weir", ".venv/bin"):
            (tmp_path / folder).mkdir(parents=True)
        for name in ("scripts/release-check", "scripts/manifest", "helm/weir/Chart.yaml"):
            shutil.copy(root / name, tmp_path / name)
        for name in ("pyproject.toml", ".gitignore"):
            shutil.copy(root / name, tmp_path)
        version = next(
            line.split('"')[1]
            for line in (root / "pyproject.toml").read_text().splitlines()
            if line.startswith("version = ")
        )
        (tmp_path / "CHANGELOG.md").write_text(f"## [{version}] - 2026-12-01\n")
        programs = tmp_path / ".venv/bin"
        (programs / "python").symlink_to("/bin/true")  # no result is old
        (programs / "go").symlink_to("/bin/false")  # no actionlint can be built
        helm = programs / "helm"
        helm.write_text(HELM)
        helm.chmod(0o755)
        for command in (
            ["init", "--quiet"],
            ["add", "."],
            ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"],
        ):
            subprocess.run(["git", *command], cwd=tmp_path, check=True)  # fmt: skip
        script = tmp_path / "scripts/release-check"
        path = f"{programs}:/usr/bin:/bin"
        return run([script, "quick"], HELM=str(helm), REFUSED=refused, PATH=path)

    return run_script


def test_what_is_right_is_fit_for_a_release(check, tmp_path):
    ended = check("nothing")

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "fit for a release" in ended.stdout
    assert (tmp_path / ".venv/bin/asked").read_text().split() == ["lint", "package", "template"]
    assert (tmp_path / "dist/weir.yaml").read_text().startswith("apiVersion: v1\nkind: Namespace")


@pytest.mark.parametrize("refused", ["lint", "package", "template"])
def test_any_command_of_a_step_fails_it(check, refused):
    ended = check(refused)

    assert ended.returncode == 1
    assert ended.stderr.endswith("weir: not fit for a release:\n  Chart and manifest\n")
