"""Values that people set, by what they want, and a way to find an object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DIGEST = f"sha256:{'0123456789abcdef' * 4}"

SAMPLES: Mapping[str, Mapping[str, Any]] = {
    "defaults": {},
    "two namespaces": {"watchNamespaces": ["streams", "rides"]},
    "all namespaces": {"watchNamespaces": ["*"]},
    "no right beyond a namespace": {
        "crds": {"enabled": False},
        "rbac": {"nodes": False, "finalizers": False, "aggregate": False},
        "watchNamespaces": ["streams"],
    },
    "roles made by somebody else": {
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "weir-by-hand"},
    },
    "image by digest": {
        "image": {"repository": "example/weir", "tag": "1.2.3", "digest": DIGEST},
        "imagePullSecrets": [{"name": "registry"}],
    },
    "three controllers": {
        "replicas": 3,
        "state": {"accessModes": ["ReadWriteMany"], "storageClass": "shared"},
    },
    "no state": {"state": {"enabled": False}, "restartsPerHour": 12, "logFormat": "text"},
    "tunings": {
        "tuner": {
            "enabled": True,
            "image": {"repository": "example/weir-tuner", "tag": "1.2.3"},
            "nodeSelector": {"weir.dev/pool": "large"},
            "extraEnv": [{"name": "A", "value": "b"}],
        }
    },
    "own claim": {"state": {"existingClaim": "mine"}},
    "platform chooses the user": {
        "security": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}
    },
    "tenant with a password": {
        "prometheus": {
            "url": "https://mimir.example/prometheus",
            "basicAuthSecret": {"name": "prometheus-login"},
            "headers": {"X-Scope-OrgID": "team-a"},
        },
        "pipelines": {"enabled": True},
    },
    "pipelines": {
        "prometheus": {
            "url": "https://prometheus.example:9091/north",
            "labels": {"cluster": "north"},
            "tokenSecret": {"name": "prometheus-token"},
            "caConfigMap": {"name": "prometheus-ca"},
        },
        "pipelines": {
            "enabled": True,
            "image": {"repository": "example/weir-pipelines", "tag": "1.2.3"},
            "apps": ["streams/trips"],
        },
    },
    "history of another server": {
        "prometheus": {
            "url": "http://prometheus:9090",
            "labels": {"cluster": "north"},
            "tokenFile": "/var/run/token",
        },
        "pipelines": {
            "enabled": True,
            "prometheus": {
                "url": "https://mimir.example:8443/prometheus",
                "headers": {"X-Scope-OrgID": "team-a"},
                "basicAuthSecret": {"name": "mimir"},
            },
        },
    },
    "pipelines with executors": {
        "prometheus": {"url": "http://prometheus:9090"},
        "pipelines": {
            "enabled": True,
            "executors": {"count": 3},
            "tables": {"accessModes": ["ReadWriteMany"], "readByController": True},
            "nodeSelector": {"team": "streams"},
        },
    },
    "everything": {
        "fullnameOverride": "scaler",
        "commonLabels": {"cost-centre": "42", "app.kubernetes.io/part-of": "overruled"},
        "extraArgs": ["--restarts-per-hour=6"],
        "podLabels": {"team": "streams"},
        "podAnnotations": {"example.com/note": "yes"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "spot", "operator": "DoesNotExist"}]}
                    ]
                }
            }
        },
        "priorityClassName": "system-cluster-critical",
        "extraEnv": [{"name": "NUMBA_CPU_NAME", "value": "host"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "service": {"port": 80, "annotations": {"example.com/note": "yes"}},
        "serviceAccount": {"annotations": {"example.com/note": "yes"}},
        "prometheus": {
            "url": "https://prometheus.example:9091/north",
            "labels": {"cluster": "north"},
            "tokenSecret": {"name": "prometheus-token"},
            "caConfigMap": {"name": "prometheus-ca"},
        },
        "networkPolicy": {
            "from": [{"namespaceSelector": {"matchLabels": {"team": "watchers"}}}],
            "egress": {
                "apiServerCIDRs": ["10.96.0.1/32"],
                "extra": [{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}],
            },
        },
        "monitoring": {
            "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "flinkPodMonitor": {"enabled": True, "interval": "2s"},
            "prometheusRule": {"enabled": True, "alertLabels": {"team": "streams"}},
            "dashboards": {"enabled": True, "folder": "Streams"},
        },
    },
}


def of_kind(objects: Sequence[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]


def container(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    [deployment] = of_kind(objects, "Deployment")
    [found] = deployment["spec"]["template"]["spec"]["containers"]
    result: dict[str, Any] = found
    return result


def rules(objects: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return all rules of the controller's roles; not those that people get."""
    return [
        rule
        for each in objects
        if each["kind"] in ("Role", "ClusterRole")
        and not any("aggregate-to" in label for label in each["metadata"]["labels"])
        and "helm.sh/hook" not in each["metadata"].get("annotations", {})
        for rule in each["rules"]
    ]
