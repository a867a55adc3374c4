from dataclasses import replace

import pytest

from stoker.core.capacity.catalog import ACCELERATORS
from stoker.core.capacity.roofline import (
    Hardware,
    Work,
    decode_step_s,
    memory_s,
    operations_s,
    prefill_s,
)

H100 = ACCELERATORS["nvidia-h100-80gb"]
WORK = Work(
    dense_bytes=6.7e9,
    expert_bytes=0,
    expert_share=0,
    layers=40,
    kv_bytes=335e6,
    prefill_flops=9.89e12,
    token_flops=9.89e9,
    bits=16,
)
EXPERTS = replace(WORK, expert_bytes=67e9, expert_share=0.5)


@pytest.mark.parametrize(
    ("name", "bits", "tflops"),
    [
        pytest.param("nvidia-h100-80gb", 16, 989, id="16 bits"),
        pytest.param("nvidia-h100-80gb", 8, 1979, id="8 bits"),
        pytest.param("nvidia-h100-80gb", 4, 989, id="4 bits without a unit are unpacked to 16"),
        pytest.param("nvidia-a100-80gb", 8, 312, id="8 bits without a unit too"),
        pytest.param("nvidia-b200", 4, 9000, id="4 bits with one"),
    ],
)
def test_operations_use_the_unit_that_is_there(name, bits, tflops):
    hardware = Hardware(accelerator=ACCELERATORS[name])
    assert operations_s(tflops * 1e12, hardware, bits=bits) == pytest.approx(1)


@pytest.mark.parametrize(
    ("work", "hardware", "requests", "expected_ms"),
    [
        pytest.param(WORK, Hardware(accelerator=H100), 1, 2.1, id="weights and one request"),
        pytest.param(WORK, Hardware(accelerator=H100), 10, 3.0, id="weights once, ten requests"),
        pytest.param(
            WORK, Hardware(accelerator=H100, tensor_parallel=2), 10, 1.5, id="tensor parallel halves both"
        ),
        pytest.param(
            WORK,
            Hardware(accelerator=H100, pipeline_parallel=2),
            10,
            2.5,
            id="stages read their weights one after the other",
        ),
        pytest.param(
            WORK, Hardware(accelerator=H100, data_parallel=2), 10, 2.5, id="engines share the requests"
        ),
        pytest.param(WORK, Hardware(accelerator=H100, data_parallel=2), 1, 2.1, id="one is not divided"),
        pytest.param(
            EXPERTS, Hardware(accelerator=H100, data_parallel=2), 2, 9.6, id="engines share the experts"
        ),
        pytest.param(EXPERTS, Hardware(accelerator=H100), 1, 12.1, id="one token touches half the experts"),
        pytest.param(EXPERTS, Hardware(accelerator=H100), 2, 17.2, id="two touch three quarters"),
    ],
)
def test_memory_is_read_as_little_as_can_be(work, hardware, requests, expected_ms):
    assert memory_s(work, hardware, requests=requests) * 1e3 == pytest.approx(expected_ms)


@pytest.mark.parametrize(
    ("work", "hardware", "expected_ms"),
    [
        pytest.param(WORK, Hardware(accelerator=H100), 2.1 / 0.9 + 40 * 0.05 + 0.01, id="one accelerator"),
        pytest.param(
            WORK,
            Hardware(accelerator=H100, tensor_parallel=2),
            1.05 / 0.9 + 40 * 0.1 + 0.005,
            id="communication in each layer",
        ),
        pytest.param(
            EXPERTS, Hardware(accelerator=H100), 12.1 / 0.9 + 40 * 0.13 + 0.01, id="experts in each layer"
        ),
    ],
)
def test_a_step_is_memory_and_layers_and_operations(work, hardware, expected_ms):
    assert decode_step_s(work, hardware, requests=1) * 1e3 == pytest.approx(expected_ms)


@pytest.mark.parametrize(
    ("name", "ranks", "share"),
    [
        pytest.param("nvidia-h100-80gb", 1, 0.5, id="NVIDIA"),
        pytest.param("nvidia-h100-80gb", 8, 0.5, id="several NVIDIA"),
        pytest.param("amd-mi300x", 1, 0.25, id="AMD"),
        pytest.param("amd-mi300x", 8, 0.058, id="eight AMD, hardly twice as fast as one"),
        pytest.param("intel-gaudi3", 8, 0.25, id="Gaudi"),
        pytest.param("google-tpu-v6e", 1, 0.25, id="a TPU"),
    ],
)
def test_prompts_reach_a_share_of_the_operations(name, ranks, share):
    hardware = Hardware(accelerator=ACCELERATORS[name], tensor_parallel=ranks)
    least = operations_s(WORK.prefill_flops, hardware, bits=16)
    assert least / prefill_s(WORK, hardware) == pytest.approx(share, rel=0.01)


def test_a_second_accelerator_never_makes_a_prompt_slower():
    for accelerator in ACCELERATORS.values():
        times = [prefill_s(WORK, Hardware(accelerator=accelerator, tensor_parallel=n)) for n in (1, 2, 4, 8)]
        assert times == sorted(times, reverse=True)
