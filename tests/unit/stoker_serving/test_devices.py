"""torch is a small module of that name in a folder of the test's."""

import asyncio
import importlib
import os
import time
from pathlib import Path

import pytest

from stoker_serving.devices import accelerator_bytes, node_bytes
from stoker_serving.reaper import Reaper


@pytest.fixture
async def reaper():
    reaper = Reaper()
    yield reaper
    reaper.close()


@pytest.fixture
def torch(tmp_path, monkeypatch):
    """Puts a torch into the search path that does what the text says."""

    def write(text):
        (tmp_path / "torch.py").write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.syspath_prepend(tmp_path)
        importlib.invalidate_caches()
        return tmp_path

    return write


DEVICES = """
from types import SimpleNamespace
SIZES = {sizes}
cuda = SimpleNamespace(
    device_count=lambda: len(SIZES),
    get_device_properties=lambda number: SimpleNamespace(total_memory=SIZES[number]),
)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(DEVICES.format(sizes=[150_000_000_000]), 150_000_000_000, id="one device"),
        pytest.param(DEVICES.format(sizes=[85, 80, 85]), 80, id="the smallest of several"),
        pytest.param(DEVICES.format(sizes=[]), None, id="no device"),
        pytest.param("raise RuntimeError('no driver')", None, id="no driver"),
        pytest.param("print('a warning')" + DEVICES.format(sizes=[1]), None, id="words between"),
    ],
)
async def test_says_the_memory_that_torch_sees(torch, reaper, text, expected):
    torch(text)
    assert await accelerator_bytes(reaper) == expected


async def test_without_torch_nobody_is_asked(reaper):
    assert await accelerator_bytes(reaper) is None


async def test_the_process_that_asks_ends_before_the_engine_when_memory_is_short(torch, reaper, tmp_path):
    torch(
        "import os, pathlib\n"
        f"out = pathlib.Path({str(tmp_path)!r})\n"
        "(out / 'score').write_text(pathlib.Path('/proc/self/oom_score_adj').read_text())\n"
        "(out / 'nice').write_text(str(os.nice(0)))\n" + DEVICES.format(sizes=[7])
    )
    assert await accelerator_bytes(reaper) == 7
    assert (tmp_path / "score").read_text() == "1000\n"
    assert (tmp_path / "nice").read_text() == "19"


async def test_modules_of_ours_do_not_stand_in_for_those_that_torch_imports(torch, reaper):
    torch(
        "import importlib.util\nassert not importlib.util.find_spec('stages')\n" + DEVICES.format(sizes=[7])
    )
    assert await accelerator_bytes(reaper) == 7


def end_of(pid_file):
    """Wait until the process has said its number, give it, and wait until it is gone."""
    while not (pid_file.exists() and pid_file.read_text()):
        time.sleep(0.01)
    pid = int(pid_file.read_text())
    yield pid
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)


@pytest.mark.parametrize("how", ["patience ends", "the supervisor leaves"])
async def test_a_torch_that_never_answers_is_ended(torch, reaper, tmp_path, how):
    torch(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "time.sleep(3600)\n"
    )
    patience_s = 3.0 if how == "patience ends" else 60.0
    asking = asyncio.create_task(accelerator_bytes(reaper, patience_s=patience_s))
    async with asyncio.timeout(20):
        steps = end_of(tmp_path / "pid")
        await asyncio.to_thread(next, steps)
        if how == "the supervisor leaves":
            asking.cancel()
        (result,) = await asyncio.gather(asking, return_exceptions=True)
        assert result is None or isinstance(result, asyncio.CancelledError)
        assert await asyncio.to_thread(next, steps, "gone") == "gone"


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_reads_the_memory_of_a_node_where_the_kernel_tells_it(tmp_path):
    (tmp_path / "node1").mkdir()
    (tmp_path / "node1" / "meminfo").write_text("Node 1 MemTotal:       97421888 kB\nNode 1 MemFree: 1 kB\n")
    assert node_bytes(1, nodes=tmp_path) == 97_421_888 * 1024
    assert node_bytes(0, nodes=tmp_path) == MACHINE


def test_a_node_of_this_machine_has_no_more_memory_than_the_machine():
    assert 0 < node_bytes(0) <= MACHINE
