// The process that holds the namespaces of a pod, built by `python -m e2e.cluster build`.
module stoker.dev/e2e/cluster/modules/pause

go 1.26.0
