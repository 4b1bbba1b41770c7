"""The names of Flink's keys, and those that are Weir's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_operator.flink.configuration import RECOMMENDED
from weir_operator.flink_keys import (
    OTHER_NAMES,
    OWN_NAMES,
    OWNED_FLINK_KEYS,
    add_own_names,
    own_names,
    remedy_for_owned,
)


def test_the_own_name_wins_over_others():
    config = {"restart-strategy": "none", "restart-strategy.type": "fixed-delay"}

    assert add_own_names(config) == config


def test_of_two_other_names_the_one_that_flink_takes_wins():
    first, second = OTHER_NAMES["execution.checkpointing.data-inline-threshold"][:2]

    config = add_own_names({second: "1 kb", first: "2 kb"})

    assert config["execution.checkpointing.data-inline-threshold"] == "2 kb"


@given(st.dictionaries(st.sampled_from(sorted({*OTHER_NAMES, *OWN_NAMES, "x"})), st.text()))
def test_no_value_of_the_users_is_changed(config):
    assert add_own_names(config).items() >= config.items()


def test_keys_that_weir_recommends_have_other_names():
    assert len(RECOMMENDED.keys() & OTHER_NAMES.keys()) >= 6


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("state.backend.fs.checkpointdir", "set spec.flink.storage instead"),
        ("savepoints.state.backend.fs.dir", "set spec.flink.storage instead"),
        ("web.port", OWNED_FLINK_KEYS["rest.port"]),
        ("jobmanager.web.submit.enable", OWNED_FLINK_KEYS["web.submit.enable"]),
        ("recovery.mode", OWNED_FLINK_KEYS["high-availability.*"]),
        # Flink looks there first.
        ("completed-application-store.max-capacity", OWNED_FLINK_KEYS["jobstore.max-capacity"]),
    ],
)
def test_a_key_of_weirs_is_refused_under_every_name(key, remedy):
    assert remedy_for_owned(key) == remedy


@pytest.mark.parametrize("key", ["io.tmp.dirs", "pekko.ask.timeout", *RECOMMENDED])
def test_the_users_keys_are_theirs_under_every_name(key):
    names = (key, *own_names(key), *OTHER_NAMES.get(key, ()))

    assert [remedy_for_owned(name) for name in names] == [None] * len(names)
