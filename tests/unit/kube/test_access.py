from pathlib import Path

import pytest
import yaml

from stoker.kube import access
from stoker.kube.errors import FatalError


@pytest.fixture
def kubeconfig(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "operator"}}],
                "clusters": [{"name": "test", "cluster": {"server": "http://127.0.0.1:6443"}}],
                "users": [{"name": "operator", "user": {"token": "secret"}}],
            }
        )
    )
    return str(path)


async def test_a_named_kubeconfig_says_where_and_who(kubeconfig):
    configuration = await access.load(kubeconfig)
    assert configuration.host == "http://127.0.0.1:6443"
    assert configuration.api_key["BearerToken"] == "Bearer secret"


async def test_the_environment_may_name_it(kubeconfig, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", kubeconfig)
    assert (await access.load("")).host == "http://127.0.0.1:6443"


def replace_token(kubeconfig):
    path = Path(kubeconfig)
    path.write_text(path.read_text().replace("secret", "new"))


async def test_a_token_that_was_replaced_is_noticed(kubeconfig, monkeypatch):
    configuration = await access.load(kubeconfig)
    replace_token(kubeconfig)
    assert await configuration.get_api_key_with_prefix("BearerToken") == "Bearer secret"
    monkeypatch.setattr(access, "_TOKEN_AGE_S", 0.0)
    assert await configuration.get_api_key_with_prefix("BearerToken") == "Bearer new"


@pytest.mark.parametrize(
    "path", [pytest.param("", id="not in a pod"), pytest.param("/no/such/file", id="no file")]
)
async def test_no_cluster_is_said_in_a_sentence(path, monkeypatch):
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(FatalError, match=r"looking for the cluster: .* name a kubeconfig with --kubeconfig"):
        await access.load(path)
