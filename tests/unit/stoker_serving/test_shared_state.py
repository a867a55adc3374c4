import multiprocessing
import time

import pytest

from stoker_serving.shared_state import SharedState


@pytest.fixture
def state():
    state = SharedState.create()
    yield state
    state.close()


def test_starts_at_nothing(state):
    assert state.in_flight == 0
    assert state.last_token_ns == 0
    assert state.refusing is False


def _work(path, requests, go_on):
    state = SharedState(path)
    slot = state.claim()
    for _ in range(requests):
        slot.started()
    slot.finished()
    slot.token()
    go_on.wait(20)
    while not state.refusing:
        time.sleep(0.01)


def test_processes_add_up_and_hear_at_once_that_requests_are_refused(state):
    spawn = multiprocessing.get_context("spawn")
    go_on = spawn.Event()
    processes = [spawn.Process(target=_work, args=(state.path, n, go_on)) for n in (3, 5)]
    for process in processes:
        process.start()
    deadline_s = time.monotonic() + 20
    while state.in_flight != 6 and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert state.in_flight == 6
    assert 0 <= time.monotonic_ns() - state.last_token_ns < 20e9
    state.refuse()
    go_on.set()
    for process in processes:
        process.join(20)
        assert process.exitcode == 0


def test_a_65th_process_is_told_what_to_change(state):
    for _ in range(64):
        state.claim()
    with pytest.raises(RuntimeError, match="api-server-count"):
        state.claim()
