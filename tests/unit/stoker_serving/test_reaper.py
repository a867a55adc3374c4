"""The reaper takes every child of its process, so it runs in a process of its own here."""

import subprocess
import sys

PROGRAM = """
import asyncio, ctypes, os, subprocess
from stoker_serving.reaper import Reaper

PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans come to us, as they come to PID 1

async def main():
    reaper = Reaper()
    child = subprocess.Popen(["/bin/sh", "-c", "sleep 0.3 & exit 7"])
    print("exit code", await asyncio.wait_for(reaper.watch(child.pid), 10))
    child.returncode = 7
    killed = subprocess.Popen(["sleep", "60"])
    ended = reaper.watch(killed.pid)
    killed.kill()
    print("exit code", await asyncio.wait_for(ended, 10))
    killed.returncode = -9
    for _ in range(100):
        with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as children:
            left = children.read()
        if not left:
            break
        await asyncio.sleep(0.1)
    print("left:", repr(left))

asyncio.run(main())
"""


def test_collects_its_children_and_the_orphans_that_come_to_it():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=False
    )
    assert result.stdout.splitlines() == ["exit code 7", "exit code -9", "left: ''"], result.stderr
