"""A real Kubernetes on one bare Linux machine, without a container engine or a registry.

``python -m e2e.cluster up`` builds Kubernetes, etcd, containerd, CoreDNS and Helm from the Go
modules in ``modules/`` (once; the results stay in a cache outside the checkout) and starts them
as ordinary processes. Two sizes: a control plane alone, for tests against a real API server, and
a cluster with nodes, each a network and mount namespace with its own containerd and kubelet.

Rejected: kind and minikube need a container engine and pull their images from a registry;
envtest needs prebuilt binaries from a download server and has no nodes.
"""
