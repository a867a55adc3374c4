"""The proxies that are compared, each started in front of the same engine on a port of its own.

nginx comes from Debian and is what every ratio is against. The rivals are what users would pick instead; they
are installed from PyPI into an environment of their own (`rivals.txt`), as their pins clash with ours.
"""

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROXY_CORE, OTHER_CORE = 0, 1
MODEL = "bench"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy, and how it is started."""

    name: str
    command: tuple[str, ...]
    port: int
    heavy: bool = False
    """Whether 1,000 streams are far more than it can take, so that it is measured with fewer."""

    def start(self, log: Path) -> subprocess.Popen[bytes]:
        """Start it on the proxies' core."""
        return pinned(self.command, core=PROXY_CORE, log=log)


def pinned(command: Sequence[str | Path], *, core: int, log: Path) -> subprocess.Popen[bytes]:
    """Start a process that runs on one core only."""
    with log.open("wb") as output:
        return subprocess.Popen(["taskset", "-c", str(core), *command], stdout=output, stderr=output)


def nginx(folder: Path, *, port: int, engine: str) -> Proxy:
    """nginx as a streaming proxy: no buffering, HTTP/1.1 and kept connections to the engine."""
    program = shutil.which("nginx")
    if program is None:
        raise SystemExit("nginx is not installed: apt-get install nginx-light")
    config = folder / "nginx.conf"
    config.write_text(
        f"""\
daemon off;
worker_processes 1;
worker_rlimit_nofile 20000;
pid {folder}/nginx.pid;
error_log {folder}/nginx.error;
events {{ worker_connections 19000; }}
http {{
  access_log off;
  keepalive_requests 1000000;
  client_body_temp_path {folder}/nginx-body;
  proxy_temp_path {folder}/nginx-proxy;
  upstream engine {{ server {engine}; keepalive 1024; }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    client_max_body_size 100m;
    location / {{
      proxy_pass http://engine;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_read_timeout 1h;
    }}
  }}
}}
"""
    )
    return Proxy(name="nginx", port=port, command=(program, "-p", str(folder), "-c", str(config)))


def stoker(*, port: int, engine: str) -> Proxy:
    """The gateway, with a table of one service that has one instance."""
    return Proxy(
        name="stoker", port=port, command=(sys.executable, str(HERE / "serve.py"), str(port), engine)
    )


def rivals(folder: Path, *, first_port: int, engine: str) -> list[Proxy]:
    """vLLM's router, SGLang's router and LiteLLM, in an environment that is made once."""
    home = folder / "rivals"
    wanted = (HERE / "rivals.txt").read_text()
    if not (home / "installed").exists() or (home / "installed").read_text() != wanted:
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([home / "bin" / "pip", "install", "-q", "-r", HERE / "rivals.txt"], check=True)
        (home / "installed").write_text(wanted)
    litellm = folder / "litellm.yaml"
    parameters = {"model": f"hosted_vllm/{MODEL}", "api_base": f"http://{engine}/v1", "api_key": "none"}
    settings = {
        "model_list": [{"model_name": MODEL, "litellm_params": parameters}],
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
    }
    litellm.write_text(json.dumps(settings))
    listen = ("--host", "127.0.0.1", "--port")
    python, worker = str(home / "bin" / "python"), ("--worker-urls", f"http://{engine}")
    return [
        Proxy(
            name="vLLM router",
            port=first_port,
            command=(python, "-m", "vllm_router.launch_router", *worker, *listen, str(first_port)),
        ),
        Proxy(
            name="SGLang router",
            port=first_port + 1,
            command=(python, "-m", "sglang_router.launch_router", *worker, *listen, str(first_port + 1)),
        ),
        Proxy(
            name="LiteLLM",
            port=first_port + 2,
            heavy=True,
            command=(
                str(home / "bin" / "litellm"),
                *("--config", str(litellm), "--num_workers", "1", *listen, str(first_port + 2)),
            ),
        ),
    ]
