"""Objects of a cluster, as the API server shows them to the gateway."""

CREATED = "2026-01-01T00:00:00Z"


def service(name="chat", namespace="prod", *, spec=None, status=None, created=CREATED, **model):
    """An `InferenceService`; keywords are fields of `spec.model`."""
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "creationTimestamp": created,
            "resourceVersion": "1",
        },
        "spec": {"model": {"uri": "hf://acme/tiny"} | model, "accelerator": {"type": "cpu"}} | (spec or {}),
        "status": {"observedGeneration": 1} | (status or {}),
    }


def endpoint(pod, address="10.0.0.1", **conditions):
    """An endpoint of a pod; Ready unless the conditions say something else."""
    return {
        "addresses": [address] if address else [],
        "conditions": {"ready": True, "serving": True, "terminating": False} | conditions,
        "targetRef": {"kind": "Pod", "name": pod},
    }


def endpoint_slice(*endpoints, name="chat-abc", of="chat", namespace="prod", family="IPv4", ports=None):
    """An EndpointSlice of the Service `of`."""
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {"kubernetes.io/service-name": of, "serving.stoker.dev/service": of},
            "resourceVersion": "1",
        },
        "addressType": family,
        "ports": [{"name": "http", "port": 8000}] if ports is None else ports,
        "endpoints": list(endpoints),
    }
