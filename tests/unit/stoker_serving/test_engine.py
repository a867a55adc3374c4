import pytest

from stoker_serving.engine import kills_for_memory

CGROUP_V2 = "low 0\nhigh 0\nmax 12\noom 2\noom_kill 2\noom_group_kill 0\n"
CGROUP_V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"


@pytest.mark.parametrize(
    ("content", "kills"),
    [
        pytest.param(CGROUP_V2, 2, id="cgroup v2"),
        pytest.param(CGROUP_V1, 3, id="cgroup v1"),
        pytest.param("oom_kill_disable 0\nunder_oom 0\n", 0, id="a kernel without the counter"),
    ],
)
def test_counts_the_kernels_kills_for_memory(tmp_path, content, kills):
    counter = tmp_path / "counter"
    counter.write_text(content)
    assert kills_for_memory([tmp_path / "missing", counter]) == kills


def test_without_any_counter_there_was_no_kill(tmp_path):
    assert kills_for_memory([tmp_path / "missing"]) == 0
