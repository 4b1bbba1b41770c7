"""How an operator's records are shared among its replicas, and how irregularly they then arrive.

Three rules (`Sharing`), as measured on Flink 2.3:

- *equal*: each of p replicas gets 1/p of the records, whatever its speed. Behind keys, records come
  in M indivisible key groups, so the worst replica gets ceil(M/p)/M and the others may get less.
  Where many records share a key, a part h of them goes to one replica whatever p is, and the worst
  gets h + (1 - h)*ceil(M/p)/M. Where the key groups were measured, it gets what they say (`keys`),
  and the others are taken to share the rest equally.
- *proportional*: each gets a share that follows its speed.
- *byLoad*, Flink's adaptive partitioner: it avoids channels with a backlog, so it shares equally
  while there is none. The law here fills water into vessels: all replicas get the same rate, but
  none more than the share `FILL_LEVEL` of what it can process; what a slow replica cannot take the
  others do. When all are that full, the shares follow speed. So more load can shorten the average
  response time a little (not the worst): the slow replicas keep less of the records.

Variability: behind a round-robin edge a replica sees every p-th arrival, whose squared coefficient
of variation (SCV) is c/p where c is the operator's; that is kept where shares are unequal. Behind
keys a share s of the arrivals is picked at random: 1 + (c - 1)*s. A Poisson stream (c = 1) behind
keys stays Poisson, which is the M/G/1 of Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023.

Source of the thinning: Whitt, "The Queueing Network Analyzer", Bell System Technical Journal 62
(1983), section 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_policies.errors import ShapeError
from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.keys import even_share
from weir_policies.policy import Aggregation, OperatorModel, Sharing

FILL_LEVEL = 0.9
"""Utilisation at which the adaptive partitioner begins to spare a replica; to be calibrated."""


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """Replicas that are alike: `g` groups, one per node type, or two where key groups divide it."""

    replicas: Floats
    """Replicas in each group, shape `(b, g)`; a mean over equally likely placements."""
    share: Floats
    """Part of the operator's records that each replica of the group gets, `(b, g)` or `(b, 1)`."""
    service_mean: Floats
    """Seconds of work per record, shape `(g,)`."""


def group_replicas(model: OperatorModel, deployments: Counts, rate: Floats) -> ReplicaGroups:
    """Return the groups of replicas and their shares.

    Args:
        model: The operator.
        deployments: Replicas per node type, shape `(b, t)`; each row has at least one.
        rate: Records/s that arrive at the operator, shape `(b, 1)` or `(1, 1)`.

    Raises:
        ShapeError: The last axis of `deployments` does not match the node types.
    """
    if deployments.ndim != 2 or deployments.shape[1] != len(model.node_types):
        raise ShapeError(
            f"Expected deployments of shape (b, {len(model.node_types)}), got {deployments.shape}"
        )
    replicas = deployments.astype(np.float64)
    speedups = np.array([node_type.speedup for node_type in model.node_types])
    service_mean = model.service_mean / speedups
    if model.sharing is Sharing.PROPORTIONAL:
        return ReplicaGroups(replicas, speedups / (replicas @ speedups)[:, None], service_mean)
    if model.sharing is Sharing.BY_LOAD:
        return ReplicaGroups(replicas, _share_by_load(replicas, service_mean, rate), service_mean)
    size = replicas.sum(axis=1, keepdims=True)  # b x 1
    if not model.keyed or model.key_groups is None:
        return ReplicaGroups(replicas, 1 / size, service_mean)
    groups = model.key_groups
    fullest = np.ceil(groups / size) / groups
    if model.fullest:
        place = np.minimum(size, len(model.fullest)).astype(np.int64) - 1
        fullest = np.array(model.fullest)[place]
    if model.aggregation is Aggregation.WORST:
        hot = 0.0 if model.fullest else model.hot_share
        return ReplicaGroups(replicas, hot + (1 - hot) * fullest, service_mean)
    # M mod p replicas have ceil(M/p) key groups, the others floor(M/p); on which node types they
    # are is chance, so each type has its part of both.
    emptiest = np.floor(groups / size) / groups
    full = np.where(groups % size == 0, 1.0, (groups % size) / size)  # b x 1
    if model.fullest:
        emptiest, full = (1 - fullest) / np.maximum(size - 1, 1), 1 / size
    types = replicas.shape[1]
    return ReplicaGroups(
        np.hstack([replicas * full, replicas * (1 - full)]),
        np.hstack([np.repeat(fullest, types, axis=1), np.repeat(emptiest, types, axis=1)]),
        np.concatenate([service_mean, service_mean]),
    )


def fullest_of(model: OperatorModel) -> tuple[float, ...]:
    """Return the share of the fullest replica of a keyed operator at each parallelism from 1."""
    if model.fullest:
        return model.fullest
    groups = model.key_groups or model.max_replicas
    return tuple(
        model.hot_share + (1 - model.hot_share) * even_share(groups, size)
        for size in range(1, model.max_replicas + 1)
    )


def thin_arrivals(model: OperatorModel, groups: ReplicaGroups) -> Floats:
    """Return the SCV of the times between arrivals at a replica, shape `(b, g)` or `(b, 1)`."""
    if model.keyed:
        # By speed, a node type that is not in use has a share that could exceed all records.
        return 1 + (model.arrival_scv - 1) * np.minimum(groups.share, 1.0)
    size: Floats = groups.replicas.sum(axis=1, keepdims=True)
    return model.arrival_scv / size


def predict_utilisation(model: OperatorModel, deployments: Counts, rate: Floats | float) -> Floats:
    """Return the busy share of the worst replica, shape `(b,)`; above 1 where it cannot keep up.

    Args:
        model: The operator.
        deployments: Replicas per node type, shape `(b, t)`.
        rate: Records/s that arrive at the operator, a scalar or shape `(b,)`; NaN gives NaN.
    """
    column = as_column(rate)
    groups = group_replicas(model, deployments, column)
    return worst_in_use(groups, column * groups.share * groups.service_mean)


def worst_in_use(groups: ReplicaGroups, value: Floats) -> Floats:
    """Return the largest of the groups that have a replica, shape `(b,)`; NaN stays NaN."""
    in_use = np.where(groups.replicas > 0, value, -np.inf)  # b x g
    # Few groups, many deployments: NumPy is several times faster down long columns than along rows.
    worst: Floats = in_use.T.copy().max(axis=0)
    return worst


def as_column(rate: Floats | float) -> Floats:
    """Return the rate in shape `(b, 1)`, or `(1, 1)` for a scalar, to broadcast."""
    return np.asarray(rate, dtype=np.float64).reshape(-1, 1)


def _share_by_load(replicas: Floats, service_mean: Floats, rate: Floats) -> Floats:
    """Return each replica's part under the water-filling law, shape `(b, t)`.

    The level x solves sum_t n_t * min(x, cap_t) = rate. The left side is the least of the lines
    "the j slowest types are full, the others get x", so x is the largest of their solutions.
    """
    slowest_first = np.argsort(-service_mean, kind="stable")
    cap = FILL_LEVEL / service_mean[slowest_first]  # records/s of a replica, t
    count = replicas[:, slowest_first]  # b x t
    taken_if_full = np.cumsum(count * cap, axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        sparing = count[:, ::-1].cumsum(axis=1)[:, ::-1]  # replicas of type j and faster
        levels = (rate - (taken_if_full - count * cap)) / sparing
        level = np.where(sparing > 0, levels, -np.inf).max(axis=1, keepdims=True)
        carried = np.minimum(level, FILL_LEVEL / service_mean)
        full = rate > taken_if_full[:, -1:]
        by_speed = (1 / service_mean) / (replicas @ (1 / service_mean))[:, None]
        # An idle operator has no rate to divide by: its shares are equal.
        share = np.where(rate > 0, carried / rate, 1 / replicas.sum(axis=1, keepdims=True))
    share = np.where(full, by_speed, share)
    return np.where(np.isnan(rate), np.nan, share)
