"""Guards the pins: complete, exact, and free of addresses."""

import re
import tomllib
from importlib.metadata import requires, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

PIN = re.compile(r"(?P<name>[a-z0-9]+(-[a-z0-9]+)*)==(?P<version>[0-9][0-9A-Za-z.]*)")
INSTALLED_EXTRAS = ("flink", "dev")
LOCK_FILES = re.compile(r".*\.lock|.*[-.]lock\.(json|ya?ml)|npm-shrinkwrap\.json")


@pytest.fixture(scope="module")
def pin_lines(root):
    lines = (root / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def pins(pin_lines):
    return dict(line.split("==") for line in pin_lines)


@pytest.fixture(scope="module")
def project(root):
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]


def test_constraints_say_names_and_versions_only(pin_lines):
    assert [line for line in pin_lines if not PIN.fullmatch(line)] == []


def test_no_package_is_pinned_twice(pin_lines, pins):
    assert len(pin_lines) == len(pins)


def test_every_extra_is_pinned(pins, project):
    asked = [
        canonicalize_name(Requirement(line).name)
        for lines in (project["dependencies"], *project["optional-dependencies"].values())
        for line in lines
    ]

    assert sorted(set(asked) - set(pins)) == []


def test_the_environment_is_what_the_constraints_say(pins, project):
    asked = [*project["dependencies"]]
    for extra in INSTALLED_EXTRAS:
        asked += project["optional-dependencies"][extra]

    needed = closure(asked)

    # Compared as versions: a package may call its own `v0.0.21`.
    assert {name: Version(version(name)) for name in needed} == {
        name: Version(pins[name]) if name in pins else None for name in needed
    }


def test_no_package_here_depends_on_the_other_project_that_pypi_calls_weir(root, own_files):
    projects = [path for path in own_files if path.name == "pyproject.toml"]

    found = {}
    for path in projects:
        project = tomllib.loads((root / path).read_text())["project"]
        found[str(path)] = {
            canonicalize_name(Requirement(line).name)
            for lines in (project["dependencies"], *project["optional-dependencies"].values())
            for line in lines
        }

    assert len(found) >= 3
    assert [path for path, names in found.items() if "weir" in names] == []


def test_no_lock_file_with_addresses_is_kept(own_files):
    assert [path for path in own_files if LOCK_FILES.fullmatch(path.name)] == []


def closure(requirements):
    """Return the names of these packages and of all that they need here, extras included."""
    waiting = [Requirement(line) for line in requirements]
    seen = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        for extra in ("", *requirement.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            further = [Requirement(line) for line in requires(name) or ()]
            waiting += [
                need
                for need in further
                if need.marker is None or need.marker.evaluate({"extra": extra})
            ]
    return {name for name, _ in seen}
