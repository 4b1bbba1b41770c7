"""Each StreamApp has one shard, and few change theirs."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_operator.kubernetes.api.objects import Key
from weir_operator.kubernetes.api.shards import (
    MAX_SHARDS,
    Shard,
    installation_of,
    read_lease_name,
    shard_of,
)

names = st.from_regex(r"[a-z]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
keys = st.builds(Key, names, names)
counts = st.integers(min_value=1, max_value=MAX_SHARDS)


@given(key=keys, of=counts)
def test_every_app_has_exactly_one_shard(key, of):
    owners = [number for number in range(of) if Shard(number, of).owns(key)]

    assert owners == [shard_of(key, of)]


@given(key=keys, of=counts)
def test_with_one_shard_more_an_app_stays_or_goes_to_the_new_one(key, of):
    assert shard_of(key, of + 1) in (shard_of(key, of), of)


@given(first=keys, second=keys)
def test_only_the_name_decides(first, second):
    same = Key(f"{first.namespace}", f"{first.name}")

    assert shard_of(first, 5) == shard_of(same, 5)


@given(prefix=names, namespaces=st.integers(min_value=1, max_value=50), of=counts)
def test_shards_are_balanced_however_apps_are_named(prefix, namespaces, of):
    total = 2000
    sizes = [0] * of
    for number in range(total):
        sizes[shard_of(Key(f"{prefix}-{number % namespaces}", f"app-{number}"), of)] += 1

    deviation = math.sqrt(total * (1 / of) * (1 - 1 / of))  # binomial
    # Six of them: one in 500 million for a single shard, and hypothesis tries some thousand.
    assert all(abs(size - total / of) <= 6 * deviation for size in sizes)


def test_processes_agree_whatever_the_seed_of_their_hashes_is():
    program = (
        "from weir_operator.kubernetes.api.objects import Key\n"
        "from weir_operator.kubernetes.api.shards import shard_of\n"
        "print([shard_of(Key('streams', f'app-{n}'), 7) for n in range(50)])"
    )
    command = (sys.executable, "-c", program)

    answers = {
        subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(2)
    }

    assert answers == {f"{[shard_of(Key('streams', f'app-{n}'), 7) for n in range(50)]}\n"}


@given(
    base=st.sampled_from(["weir-controller", "b"]),
    number=st.integers(min_value=0, max_value=MAX_SHARDS - 1),
    of=counts,
)
def test_the_name_of_a_lease_says_whose_it_is(base, number, of):
    shard = Shard(number % of, of)

    name = shard.lease_name(base)

    assert read_lease_name(name, base) == shard
    assert installation_of(f"weir/{name}") == f"weir/{base}"


@pytest.mark.parametrize(
    "name",
    [
        "another",
        "weir-controllers",
        "weir-controller-3-of-3",
        "weir-controller-0-of-1",
        "weir-controller-0-of-0",
        "weir-controller-00-of-2",
        "weir-controller-x-of-2",
        "weir-controller-0-of-2-of-3",
    ],
)
def test_any_other_lease_is_of_no_shard(name):
    assert read_lease_name(name, "weir-controller") is None
