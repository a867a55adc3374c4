"""Values that the chart is rendered with: one case for each way that people install it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A way to install the chart. The CRDs, which are the same in all of them, are tested apart."""

    values: dict = field(default_factory=dict)
    release: str = "stoker"
    namespace: str = "stoker-system"


CASES = {
    "defaults": Case(),
    "two namespaces only": Case(values={"watchNamespaces": ["team-a", "team-b"]}),
    "nothing outside of the namespaces": Case(
        values={"watchNamespaces": ["team-a"], "rbac": {"aggregateToDefaultRoles": False}}
    ),
    "images from a mirror by digest": Case(
        values={
            "image": {
                "registry": "registry.example.com/mirror/",
                "digest": "sha256:" + "a" * 64,
                "pullPolicy": "Always",
                "pullSecrets": ["mirror", "0123"],
            },
            "servingImage": {"digest": "sha256:" + "b" * 64},
            "servingImageCpu": {"repository": "own/serving", "tag": "7"},
        }
    ),
    "everything on": Case(
        values={
            "commonLabels": {"team": "serving"},
            "sources": {"allowClusterInternal": True},
            "log": {"format": "text", "level": "debug"},
            "operator": {
                "podLabels": {"sidecar": "no"},
                "podAnnotations": {"example.com/scrape": "yes"},
                "serviceAccountAnnotations": {"example.com/role": "stoker"},
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "tolerations": [{"key": "control-plane", "operator": "Exists"}],
                "affinity": {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "weight": 1,
                                "preference": {"matchExpressions": [{"key": "cpu", "operator": "Exists"}]},
                            }
                        ]
                    }
                },
                "priorityClassName": "system-cluster-critical",
                "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
            },
            "gateway": {
                "url": "https://models.example.com/v1",
                "workers": 2,
                "drainSeconds": 600,
                "tlsSecret": "gateway-tls",
                "apiKeysSecret": "stoker-keys",
                "service": {"type": "LoadBalancer", "annotations": {"example.com/internal": "yes"}},
                "podLabels": {"sidecar": "no"},
                "podAnnotations": {"example.com/scrape": "yes"},
                "serviceAccountAnnotations": {"example.com/role": "gateway"},
                "nodeSelector": {"kubernetes.io/os": "linux"},
                "tolerations": [{"key": "control-plane", "operator": "Exists"}],
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "kubernetes.io/hostname",
                                "labelSelector": {"matchLabels": {"app.kubernetes.io/component": "gateway"}},
                            }
                        ]
                    }
                },
                "priorityClassName": "system-cluster-critical",
                "extraEnv": [{"name": "STOKER_SILENCE_TIMEOUT_SECONDS", "value": "900"}],
            },
            "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
            "networkPolicy": {
                "enabled": True,
                "metricsFrom": [
                    {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
                ],
                "clientsFrom": [{"namespaceSelector": {"matchLabels": {"example.com/clients": "yes"}}}],
            },
        }
    ),
    "everything off": Case(
        values={
            "sources": {"readCredentials": False},
            "rbac": {"aggregateToDefaultRoles": False},
            "operator": {
                "replicas": 1,
                "podDisruptionBudget": False,
                "resources": {"requests": None, "limits": None},
            },
            "gateway": {"enabled": False},
        }
    ),
    "user ids left to OpenShift": Case(
        values={
            part: {"podSecurityContext": dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"))}
            for part in ("operator", "gateway")
        }
    ),
    "gateways without a budget and bounds": Case(
        values={
            "gateway": {
                "replicas": 1,
                "podDisruptionBudget": False,
                "drainSeconds": 0,
                "resources": {"requests": None, "limits": None},
            }
        }
    ),
    "names that YAML takes for numbers": Case(release="2026", namespace="1e3"),
    "a release with a long name of its own": Case(
        release="a-release-whose-name-takes-all-of-the-53-characters-x", values={"nameOverride": "heat"}
    ),
}
