from hypothesis import given
from hypothesis import strategies as st

from stoker.gateway.retry_budget import RetryBudget


def spend_all(budget):
    spent = 0
    while budget.spend():
        spent += 1
    return spent


def test_all_requests_of_one_dead_instance_may_go_elsewhere_at_once():
    assert spend_all(RetryBudget()) == 100


def test_five_requests_earn_one_retry():
    budget = RetryBudget()
    spend_all(budget)
    for _ in range(5):
        assert not budget.spend()
        budget.earn()
    assert budget.spend()
    assert not budget.spend()


@given(st.lists(st.booleans(), max_size=2_000))
def test_never_more_than_a_fifth_of_the_requests_and_the_reserve(steps):
    budget = RetryBudget()
    requests = retries = 0
    for retry in steps:
        if retry:
            retries += budget.spend()
        else:
            budget.earn()
            requests += 1
    assert retries <= 100 + requests / 5 + 1e-6
