import pytest

from stoker.core.capacity.bands import band
from stoker.core.capacity.catalog import ACCELERATORS
from stoker.core.capacity.roofline import Hardware, Work

DENSE = Work(
    dense_bytes=16e9,
    expert_bytes=0,
    expert_share=0,
    layers=32,
    kv_bytes=1e8,
    prefill_flops=1e13,
    token_flops=1.6e10,
    bits=16,
)
EXPERTS = Work(
    dense_bytes=4e9,
    expert_bytes=60e9,
    expert_share=1 / 32,
    layers=36,
    kv_bytes=1e8,
    prefill_flops=1e13,
    token_flops=1e10,
    bits=4,
)


def on(name: str, ranks: int = 1, stages: int = 1, engines: int = 1) -> Hardware:
    return Hardware(
        accelerator=ACCELERATORS[name],
        tensor_parallel=ranks,
        pipeline_parallel=stages,
        data_parallel=engines,
    )


@pytest.mark.parametrize(
    ("work", "hardware", "low", "high", "why"),
    [
        pytest.param(DENSE, on("nvidia-h100-80gb"), 0.75, 1.3, "dense models on NVIDIA", id="dense, NVIDIA"),
        pytest.param(DENSE, on("nvidia-h200", 8), 0.75, 1.3, "dense models on NVIDIA", id="over NVLink"),
        pytest.param(DENSE, on("nvidia-h200", 8), 0.75, 1.3, "first tokens", id="first tokens on eight"),
        pytest.param(DENSE, on("nvidia-l40s", 2), 0.45, 1.3, "joined by PCIe", id="over PCIe"),
        pytest.param(DENSE, on("nvidia-b200"), 0.45, 1.3, "Blackwell", id="Blackwell"),
        pytest.param(EXPERTS, on("nvidia-b200"), 0.5, 1.5, "mixtures of experts", id="experts"),
        pytest.param(DENSE, on("amd-mi300x", 8), 0.5, 1.5, "not NVIDIA's", id="AMD"),
        pytest.param(DENSE, on("amd-mi355x", 8), 0.5, 1.5, "not NVIDIA's", id="AMD, link not known"),
        pytest.param(EXPERTS, on("google-tpu-v6e"), 0.4, 1.6, "not NVIDIA's", id="experts on a TPU"),
        pytest.param(DENSE, on("cpu"), 0.1, 1.5, "cores, memory channels", id="processors"),
        pytest.param(DENSE, on("nvidia-h200", 8, 2), 0.45, 1.3, "pipeline", id="a pipeline"),
        pytest.param(EXPERTS, on("nvidia-h200", 1, 1, 8), 0.3, 1.5, "data-parallel", id="experts spread"),
        pytest.param(DENSE, on("nvidia-h200", 1, 1, 8), 0.75, 1.3, "dense models", id="engines side by side"),
    ],
)
def test_the_less_was_measured_the_wider_the_band(work, hardware, low, high, why):
    found = band(work, hardware)
    assert (found.low, found.high) == (pytest.approx(low), high)
    assert why in found.why
