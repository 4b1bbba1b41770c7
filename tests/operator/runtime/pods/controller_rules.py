"""What the controller asks of the API server: the chart allows it, and no pod's role exceeds it."""

from __future__ import annotations

from collections.abc import Sequence

from weir_operator.api.client import Body

CONTROLLER_RULES: Sequence[Body] = (
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "list", "watch", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {
        "apiGroups": [""],
        "resources": ["services", "serviceaccounts"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
    {
        # Also what Flink's pods may do: nobody can grant more than they have.
        "apiGroups": [""],
        "resources": ["configmaps"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {
        "apiGroups": ["apps"],
        "resources": ["deployments", "replicasets"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["networking.k8s.io"],
        "resources": ["networkpolicies"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
    {
        "apiGroups": ["policy"],
        "resources": ["poddisruptionbudgets"],
        "verbs": ["get", "list", "create", "patch", "delete"],
    },
)
"""What the controller may do in the namespaces of its StreamApps, for their pods."""

CLUSTER_RULES: Sequence[Body] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
)
"""What it may do beyond namespaces; without, it does not see that a node is drained."""
