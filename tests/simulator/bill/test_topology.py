"""Edges from rates alone."""

import numpy as np

from weir_simulator.bill.topology import find_edges

SLOTS = 500
RNG = np.random.default_rng(3)
TRIPS = 100 + 50 * np.sin(np.arange(SLOTS) / 40) + RNG.normal(0, 5, SLOTS)
TAXIS = 30 + RNG.normal(0, 4, SLOTS)
NONE = np.zeros(SLOTS)


def edges(**vertices):
    names = [name.replace("_", " ") for name in vertices]
    taken, given = np.array(list(vertices.values())).swapaxes(0, 1)
    return find_edges(names, taken, given)


def test_a_chain_is_found_whatever_the_order_of_its_vertices():
    found = edges(
        sink=(TRIPS / 4, NONE), count=(TRIPS / 2, TRIPS / 4), source_trips=(TRIPS, TRIPS / 2)
    )

    assert set(found.pairs) == {("source trips", "count"), ("count", "sink")}
    assert not found.guessed


def test_a_vertex_with_two_behind_it_gives_each_record_twice():
    found = edges(
        source_trips=(TRIPS, 2 * TRIPS), store=(TRIPS, NONE), count=(TRIPS, TRIPS / 9),
        sink=(TRIPS / 9, NONE),
    )  # fmt: skip

    assert set(found.pairs) == {
        ("source trips", "store"), ("source trips", "count"), ("count", "sink")
    }  # fmt: skip


def test_two_sources_meet_in_a_join():
    found = edges(
        source_trips=(TRIPS, TRIPS), source_taxis=(TAXIS, TAXIS), join=(TRIPS + TAXIS, TRIPS),
        sink=(TRIPS, NONE),
    )  # fmt: skip

    assert set(found.pairs) == {
        ("source trips", "join"), ("source taxis", "join"), ("join", "sink")
    }  # fmt: skip


def test_what_agrees_with_nothing_is_guessed_and_said():
    found = edges(source_trips=(TRIPS, TRIPS), count=(TRIPS, TRIPS / 2), alert=(TAXIS, NONE))

    assert ("source trips", "count") in found.pairs
    assert [target for _, target in found.guessed] == ["alert"]


def test_slots_that_were_not_measured_do_not_count():
    taken = np.array([TRIPS, TRIPS])
    given = np.array([TRIPS, NONE])
    taken[1, ::3] = np.nan

    found = find_edges(["source", "sink"], taken, given)

    assert found.pairs == (("source", "sink"),)


def test_many_equal_rates_become_a_chain_without_a_cycle():
    found = edges(source=(TRIPS, TRIPS), b=(TRIPS, TRIPS), c=(TRIPS, TRIPS), d=(TRIPS, NONE))

    assert len(found.pairs) == 3
    assert sorted(target for _, target in found.pairs) == ["b", "c", "d"]
    assert not found.guessed
