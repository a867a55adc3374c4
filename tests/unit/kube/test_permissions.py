import pytest

from stoker.kube.permissions import (
    GATEWAY_IN_OWN_NAMESPACE,
    GATEWAY_IN_WATCHED_NAMESPACES,
    IN_OWN_NAMESPACE,
    IN_WATCHED_NAMESPACES,
    TO_READ_CREDENTIALS,
    TO_READ_LOAD,
)

GATEWAY = GATEWAY_IN_WATCHED_NAMESPACES + GATEWAY_IN_OWN_NAMESPACE
OPERATOR = IN_WATCHED_NAMESPACES + TO_READ_CREDENTIALS + IN_OWN_NAMESPACE + TO_READ_LOAD
EVERYTHING = OPERATOR + GATEWAY


@pytest.mark.parametrize("rule", EVERYTHING, ids=lambda rule: rule["resources"][0])
def test_every_permission_names_exact_verbs_and_resources(rule):
    for words in rule.values():
        assert words
        assert "*" not in words


def test_secrets_are_read_by_name_alone_and_the_users_spec_is_out_of_reach():
    allowed = {
        (resource, verb) for rule in EVERYTHING for resource in rule["resources"] for verb in rule["verbs"]
    }
    assert {verb for resource, verb in allowed if resource == "secrets"} == {"get"}
    assert TO_READ_CREDENTIALS == ({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},)
    writes = {"create", "update", "patch", "delete", "deletecollection"}
    assert not {verb for resource, verb in allowed if resource == "inferenceservices"} & writes


def test_what_is_watched_may_be_listed_too():
    for rule in EVERYTHING:
        if "watch" in rule["verbs"]:
            assert "list" in rule["verbs"]


def test_the_gateway_only_looks():
    assert {verb for rule in GATEWAY for verb in rule["verbs"]} == {"list", "watch"}
