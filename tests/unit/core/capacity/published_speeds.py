"""Published speeds, for the tests of the throughput estimate.

Numbers of other people's measurements; facts, with the letter of their source:

a: tgarg01/silybench-data `derived/csv/perf_points.csv`, `runs.csv` @93e4887 (GCP a3-highgpu-1g; vLLM 0.30.0).
b: alpharomercoma/MI300X-vs-H200 `REPORT.md` 4.1 and 5 (vLLM 0.26.0). c: johnmusgrave.com, "vLLM
throughput-latency sweep on NVIDIA A100". d, h, j: tenstorrent/tt-inference-server issues 143, 394, 340.
e: docs.nvidia.com, NIM LLM benchmarking 1.0.0, "Performance". f: vllm-project/vllm issue 18725. i:
ai.wmx.dev/benchmarks. k: llm-d/llm-d `docs/accelerators/amd-mi355x-perf.md` (vLLM 0.15.1). l:
mushfiqrahman.dev, Mistral-7B on RTX 4090. m: Buildkite vllm/performance-benchmark build 9515. n, o:
SemiAnalysisAI/InferenceX issues 828, 870. p: intel.com, "Model Performance Data for Intel Gaudi 3" (1.18.0).
q: NVIDIA/TensorRT-LLM `docs/source/performance/perf-overview.md`, v0.17 @258c754 and v1.0 @00f3768.

`bound` is the least time of a step turned into tokens per second, computed by whoever collected the readings;
rows 37 to 40 state no batch, it is what fits into the memory.
"""

from dataclasses import dataclass

from stoker.core.capacity.architecture import (
    Experts,
    FullAttention,
    LatentAttention,
    LatentProjections,
    LayerKind,
    ModelConfig,
    Quantization,
    SlidingWindow,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    config: ModelConfig
    weight_bytes: int
    expert_bytes: int
    active_parameters: int


def model(
    layers: tuple[LayerKind, ...],
    *,
    heads: int,
    gigabytes: float,
    active: float,
    expert_gigabytes: float = 0.0,
    experts: tuple[int, int] | None = None,
    method: str = "",
    bits: float = 16,
) -> Model:
    """`gigabytes` of weights, `active` billions of parameters, `experts` as (of each token, all)."""
    return Model(
        config=ModelConfig(
            architecture="",
            layers=layers,
            hidden_size=0,
            vocab_size=0,
            attention_heads=heads,
            intermediate_size=0,
            experts=experts
            and Experts(
                per_token=experts[0],
                count=experts[1],
                intermediate_size=0,
                shared_intermediate_size=0,
                layers=len(layers),
            ),
            tied_embeddings=False,
            bytes_per_element=2,
            quantization=Quantization(method=method, bits=bits, group_size=0) if method else None,
            context_length=None,
            latent=LatentProjections(query_rank=1536, nope_dim=128, value_dim=128),
        ),
        weight_bytes=round(gigabytes * 1e9),
        expert_bytes=round(expert_gigabytes * 1e9),
        active_parameters=round(active * 1e9),
    )


def full(layers: int, kv_heads: int, dim: int) -> tuple[LayerKind, ...]:
    return (FullAttention(kv_heads=kv_heads, key_dim=dim, value_dim=dim),) * layers


_GPT_OSS = (SlidingWindow(kv_heads=8, key_dim=64, value_dim=64, window=128), *full(1, 8, 64))
_DEEPSEEK = (LatentAttention(rank=512, rope_dim=64),) * 61
_LLAMA_70B = full(80, 8, 128)

MODELS = {
    "Qwen2.5-0.5B": model(full(24, 2, 64), heads=14, gigabytes=0.988, active=0.494),
    "Qwen3-4B": model(full(36, 8, 128), heads=32, gigabytes=8.04, active=4.02),
    "Mistral-7B": model(full(32, 8, 128), heads=32, gigabytes=14.5, active=7.25),
    "Llama-3.1-8B": model(full(32, 8, 128), heads=32, gigabytes=16.06, active=8.03),
    "Llama-3.1-8B fp8": model(full(32, 8, 128), heads=32, gigabytes=9.1, active=8.03, method="fp8", bits=8),
    "Qwen3-8B": model(full(36, 8, 128), heads=32, gigabytes=16.38, active=8.19),
    "Qwen3-8B fp8": model(full(36, 8, 128), heads=32, gigabytes=9.44, active=8.19, method="fp8", bits=8),
    "Qwen3-32B": model(full(64, 8, 128), heads=64, gigabytes=65.5, active=32.8),
    "QwQ-32B": model(full(64, 8, 128), heads=40, gigabytes=65.5, active=32.8),
    "Llama-3-70B": model(_LLAMA_70B, heads=64, gigabytes=141.1, active=70.6),
    "Llama-3.3-70B fp8": model(_LLAMA_70B, heads=64, gigabytes=72.7, active=70.6, method="fp8", bits=8),
    "Llama-3.3-70B fp4": model(
        _LLAMA_70B, heads=64, gigabytes=42.7, active=70.6, method="modelopt_fp4", bits=4
    ),
    "Qwen2.5-72B": model(_LLAMA_70B, heads=64, gigabytes=145.4, active=72.7),
    "Qwen3-30B-A3B": model(
        full(48, 4, 128), heads=32, gigabytes=61.06, active=3.35, expert_gigabytes=57.98, experts=(8, 128)
    ),
    "gpt-oss-20b": model(
        _GPT_OSS * 12,
        heads=64,
        gigabytes=13.76,
        active=3.6,
        expert_gigabytes=10.15,
        experts=(4, 32),
        method="mxfp4",
        bits=4,
    ),
    "gpt-oss-120b": model(
        _GPT_OSS * 18,
        heads=64,
        gigabytes=65.2,
        active=5.1,
        expert_gigabytes=60.9,
        experts=(4, 128),
        method="mxfp4",
        bits=4,
    ),
    "DeepSeek-R1 fp8": model(
        _DEEPSEEK,
        heads=128,
        gigabytes=672.9,
        active=37.6,
        expert_gigabytes=653.9,
        experts=(8, 256),
        method="fp8",
        bits=8,
    ),
    "DeepSeek-R1 awq": model(
        _DEEPSEEK,
        heads=128,
        gigabytes=352.0,
        active=37.6,
        expert_gigabytes=335.0,
        experts=(8, 256),
        method="awq",
        bits=4,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    row: str
    model: str
    accelerator: str
    count: int
    kv_dtype: str
    requests: float
    prompt: float
    output: float
    tokens_per_s: float
    first_token_ms: float | None
    """Mean; row by row, p50 or p95 is in the sources."""
    latency_ms: float | None
    """Between tokens; median in sources a, f, i and k."""
    bound: float | None
    source: str


def _reading(line: str) -> Reading:
    row, name, accelerator, count, kv, c, prompt, output, speed, first, latency, bound, source = (
        field.strip() for field in line.split("|")
    )
    number = {"-": None}
    return Reading(
        row=row,
        model=name,
        accelerator=accelerator,
        count=int(count),
        kv_dtype=kv,
        requests=float(c),
        prompt=float(prompt),
        output=float(output),
        tokens_per_s=float(speed),
        first_token_ms=number.get(first, first) and float(first),
        latency_ms=number.get(latency, latency) and float(latency),
        bound=number.get(bound, bound) and float(bound),
        source=source,
    )


def _readings(table: str) -> tuple[Reading, ...]:
    return tuple(_reading(line) for line in table.strip().splitlines())


READINGS = _readings(
    """
1 | Qwen3-8B | nvidia-h100-80gb | 1 | auto | 1 | 128 | 1024 | 145.7 | 14 | 6.86 | 203 | a
2 | Qwen3-8B | nvidia-h100-80gb | 1 | auto | 1 | 8192 | 512 | 128.8 | 254 | 7.3 | 190 | a
3 | Qwen3-8B fp8 | nvidia-h100-80gb | 1 | auto | 1 | 128 | 1024 | 214.1 | 14 | 4.66 | 351 | a
4 | Qwen3-8B fp8 | nvidia-h100-80gb | 1 | auto | 1 | 8192 | 512 | 182.6 | 205 | 5.1 | 314 | a
6 | Llama-3.1-8B | amd-mi300x | 1 | auto | 1 | 1024 | 1024 | 195 | - | - | 326 | b
7 | Llama-3.1-8B | nvidia-a100-40gb | 1 | auto | 1 | 1024 | 128 | 75 | - | - | 96 | c
8 | Qwen2.5-72B | nvidia-h100-80gb | 2 | auto | 1 | 128 | 1024 | 32.3 | 35 | 30.9 | 46 | d
9 | Llama-3.3-70B fp8 | nvidia-h100-80gb | 2 | fp8 | 1 | 5000 | 500 | 51.7 | 407 | 18.58 | 91 | e
10 | QwQ-32B | nvidia-h200 | 8 | auto | 1 | 137 | 266 | 115.3 | 594 | 6.49 | 586 | f
12 | Qwen3-4B | nvidia-rtx-4090 | 1 | auto | 1 | 128 | 1024 | 96.0 | 25 | 10.4 | 124 | h
13 | Qwen2.5-0.5B | nvidia-l4 | 1 | auto | 1 | 256 | 128 | 168 | 27 | 5.1 | 302 | i
14 | Qwen3-30B-A3B | nvidia-a100-80gb | 1 | auto | 1 | 128 | 1024 | 103.4 | 27 | 9.7 | 301 | j
15 | Qwen3-8B | nvidia-h100-80gb | 1 | auto | 16 | 2048 | 2048 | 1625 | 787 | 9.46 | 2269 | a
16 | Qwen3-8B | nvidia-h100-80gb | 1 | auto | 64 | 2048 | 2048 | 3463 | 2485 | 17.05 | 4725 | a
18 | Llama-3.1-8B | nvidia-h200 | 1 | auto | 32 | 1024 | 1024 | 4486 | - | - | 6826 | b
19 | Llama-3.3-70B fp8 | nvidia-h100-80gb | 2 | fp8 | 25 | 5000 | 500 | 623 | 689 | 38.75 | 1779 | e
20 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 32 | 4096 | 4096 | 2230 | 1204 | 14.1 | 14941 | k
21 | Mistral-7B | nvidia-rtx-4090 | 1 | auto | 4 | 256 | 100 | 210 | 63 | - | 275 | l
22 | Llama-3-70B | nvidia-h200 | 4 | auto | 8 | 32 | 128 | 493 | - | - | 1087 | m
24 | gpt-oss-120b | nvidia-h100-80gb | 8 | auto | 4 | 1024 | 1024 | 1037 | - | 3.72 | 9078 | n
25 | gpt-oss-120b | nvidia-h100-80gb | 2 | auto | 64 | 1024 | 1024 | 4123 | - | 15.21 | 7013 | n
26 | DeepSeek-R1 fp8 | nvidia-h200 | 8 | auto | 8 | 1024 | 1024 | 597 | 331 | 12.8 | 1780 | o
28 | Qwen3-8B | nvidia-h100-80gb | 1 | auto | 256 | 128 | 1024 | 13567 | 849 | 18.08 | 21155 | a
29 | Qwen3-8B fp8 | nvidia-h100-80gb | 1 | auto | 256 | 128 | 1024 | 15264 | 694 | 16.13 | 25524 | a
31 | Llama-3.1-8B | amd-mi300x | 1 | auto | 256 | 1024 | 1024 | 8085 | - | - | 20071 | b
33 | Llama-3.3-70B fp8 | nvidia-h100-80gb | 2 | fp8 | 50 | 5000 | 500 | 814 | 835 | 59.73 | 2896 | e
34 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 256 | 1024 | 256 | 3348 | 2296 | 72.5 | 96783 | k
35 | Llama-3.1-8B fp8 | intel-gaudi3 | 1 | fp8 | 768 | 128 | 2048 | 18830 | - | - | 42373 | p
36 | Llama-3.3-70B fp8 | intel-gaudi3 | 8 | fp8 | 600 | 2048 | 2048 | 8946 | - | - | 47406 | p
37 | Llama-3.1-8B | nvidia-a100-80gb | 1 | auto | 381 | 128 | 2048 | 5256 | - | - | 10557 | q
39 | Llama-3.3-70B fp4 | nvidia-b200 | 1 | fp8 | 654 | 128 | 2048 | 9922 | - | - | 31492 | q
40 | Llama-3.3-70B fp4 | nvidia-rtx-pro-6000 | 1 | fp8 | 254 | 128 | 2048 | 2422 | - | - | 4484 | q
"""
)

# Found later; they set no constant of the likely speed (but k's long prompts that of several AMD cards),
# and the bands were opened to hold the worst of them (r1, s215, v1).
# r: tenstorrent/tt-inference-server issue 356. s: gpustack/gpustack docs/performance-lab/gpt-oss-20b/a100.md
# (no limit on requests, so vLLM's default of 256 for an A100). t: vllm-project/vllm issue 17788 (H100 NVL, at
# most 32 sequences). u: databasemart.com, "A40 vLLM benchmark". v: vllm-project/vllm issue 20710 (vLLM
# 0.9.0). w: SemiAnalysisAI/InferenceX pull request 1092. y: as a, 512 clients, of which 43 and 48 fit into
# the KV cache. z: vllm-project/vllm pull request 16458 (48 fit). c, d, k, l: other rows of these sources.
HOLD_OUT = _readings(
    """
c8 | Llama-3.1-8B | nvidia-a100-40gb | 1 | auto | 8 | 1024 | 128 | 495 | - | - | - | c
l8 | Mistral-7B | nvidia-rtx-4090 | 1 | auto | 8 | 256 | 100 | 377 | 79 | - | - | l
l16 | Mistral-7B | nvidia-rtx-4090 | 1 | auto | 16 | 256 | 100 | 644 | 155 | - | - | l
l32 | Mistral-7B | nvidia-rtx-4090 | 1 | auto | 32 | 256 | 100 | 975 | 362 | - | - | l
l48 | Mistral-7B | nvidia-rtx-4090 | 1 | auto | 48 | 256 | 100 | 1190 | 667 | - | - | l
d8k | Qwen2.5-72B | nvidia-h100-80gb | 2 | auto | 1 | 8192 | 128 | 25.4 | 1064 | 31.3 | - | d
y16 | Qwen3-8B | nvidia-h100-80gb | 1 | auto | 43 | 8192 | 512 | 997 | - | - | - | y
y8 | Qwen3-8B fp8 | nvidia-h100-80gb | 1 | auto | 48 | 8192 | 512 | 1157 | - | - | - | y
r1 | DeepSeek-R1 awq | nvidia-h100-80gb | 8 | auto | 1 | 128 | 1024 | 62.0 | 27 | 16.1 | - | r
s215 | gpt-oss-20b | nvidia-a100-80gb | 1 | auto | 256 | 215 | 194 | 4620 | - | 48.57 | - | s
s2k | gpt-oss-20b | nvidia-a100-80gb | 1 | auto | 256 | 2000 | 94 | 813 | - | 100.3 | - | s
s4k | gpt-oss-20b | nvidia-a100-80gb | 1 | auto | 256 | 4000 | 107 | 415.6 | - | 123.4 | - | s
t32 | Qwen3-32B | h100-nvl | 1 | auto | 32 | 217 | 200 | 653.6 | - | - | - | t
u50 | Llama-3.1-8B | a40 | 1 | auto | 50 | 100 | 443 | 1016.6 | 220 | - | - | u
v1 | Llama-3.3-70B fp8 | nvidia-b200 | 2 | auto | 1 | 512 | 512 | 35.0 | 50 | - | - | v
v16 | Llama-3.3-70B fp8 | nvidia-b200 | 2 | auto | 16 | 512 | 512 | 799 | 70 | - | - | v
k16 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 16 | 1024 | 256 | 1320.8 | 343 | 10.3 | - | k
k64 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 64 | 1024 | 256 | 1519.2 | 2440 | 37.3 | - | k
k128 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 128 | 1024 | 256 | 2985 | 1505 | 39.2 | - | k
k4k4 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 4 | 4096 | 4096 | 353.6 | 369 | 11.3 | - | k
k4k16 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 16 | 4096 | 4096 | 1233 | 871 | 12.8 | - | k
k16k4 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 4 | 16384 | 2048 | 246.8 | 1770 | 21.0 | - | k
k16k16 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 16 | 16384 | 2048 | 717.1 | 3100 | 21.2 | - | k
k16k32 | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 32 | 16384 | 2048 | 1112.6 | 4440 | 27.7 | - | k
k32k | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 4 | 32768 | 128 | 48.8 | 4290 | - | - | k
k64k | Llama-3.3-70B fp8 | amd-mi355x | 8 | auto | 2 | 65536 | 128 | 15.5 | 9090 | - | - | k
w1 | gpt-oss-120b | amd-mi300x | 8 | auto | 1 | 1024 | 1024 | 249 | - | - | - | w
w4 | gpt-oss-120b | amd-mi300x | 8 | auto | 4 | 1024 | 1024 | 936 | - | - | - | w
z48 | Llama-3.1-8B | google-tpu-v6e | 1 | auto | 48 | 1800 | 128 | 1003 | - | - | - | z
"""
)
