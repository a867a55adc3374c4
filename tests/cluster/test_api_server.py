from e2e.cluster import programs


def test_the_server_answers_with_the_version_it_was_built_from(kubectl):
    versions = kubectl("version", "-o", "json")
    assert versions["serverVersion"]["gitVersion"] == programs.kubernetes_version()
    assert versions["clientVersion"]["gitVersion"] == programs.kubernetes_version()


def test_built_in_controllers_run(kubectl, namespace):
    kubectl("wait", "--for=create", "--timeout=30s", "serviceaccount/default", "-n", namespace)


def test_a_deployment_gets_its_pods_though_nothing_runs_them(kubectl, namespace):
    kubectl("create", "deployment", "chat", "--image=localhost/none:dev", "--replicas=2", "-n", namespace)
    kubectl(
        "wait", "--for=jsonpath={.status.replicas}=2", "--timeout=30s", "deployment/chat", "-n", namespace
    )
    pods = kubectl("get", "pods", "-n", namespace, "-o", "json")["items"]
    assert [pod["status"]["phase"] for pod in pods] == ["Pending", "Pending"]
