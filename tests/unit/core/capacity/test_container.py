import pytest
from tests.unit.core.capacity.models import uniform

from stoker.core.capacity.catalog import ACCELERATORS
from stoker.core.capacity.container import OUR_IMAGE, EngineContainer, loaded_as, settings_on, with_memory_of
from stoker.core.capacity.memory import GIB
from stoker.core.model import Refusal

CPU, L40S = ACCELERATORS["cpu"], ACCELERATORS["nvidia-l40s"]


def container(*words, environment=OUR_IMAGE, **more):
    return EngineContainer(args=words, environment=environment, **more)


@pytest.mark.parametrize(
    ("kind", "limit", "gib"),
    [
        pytest.param(CPU, 16, 16, id="a processor has what its container may use"),
        pytest.param(CPU, None, 64, id="without a limit that of the catalogue"),
        pytest.param(L40S, 16, 44.42, id="an accelerator has its own"),
    ],
)
def test_the_memory_of_a_processor_is_the_containers(kind, limit, gib):
    found = with_memory_of(container(memory_bytes=limit and limit * GIB), kind)
    assert found.visible_bytes / GIB == pytest.approx(gib)
    assert found.estimated == (kind is CPU and limit is None)


@pytest.mark.parametrize(
    ("words", "count", "expected"),
    [
        pytest.param(("-tp", "2"), None, (2, 1, 1), id="as the arguments say"),
        pytest.param(("-tp", "2"), 8, (8, 1, 1), id="the count wins"),
        pytest.param(("-pp", "2"), 8, (4, 2, 1), id="pipeline ranks take their part"),
        pytest.param(("-dp", "2"), 2, (1, 1, 2), id="so do engines side by side"),
    ],
)
def test_a_count_of_accelerators_is_shared_out(words, count, expected):
    found = settings_on(L40S, container(*words), count=count)
    assert (found.tensor_parallel, found.pipeline_parallel, found.data_parallel) == expected


@pytest.mark.parametrize(
    ("kind", "given", "count", "words"),
    [
        pytest.param(L40S, container("-pp", "3"), 4, "4 accelerators can't be shared out", id="a bad count"),
        pytest.param(L40S, container("-tp", "two"), 4, "--tensor-parallel-size", id="a bad argument"),
        pytest.param(
            CPU, container(environment={}), None, "VLLM_CPU_KVCACHE_SPACE", id="no size of the cache"
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind, given, count, words):
    found = settings_on(kind, given, count=count)
    assert isinstance(found, Refusal)
    assert words in found.message


def test_our_image_sets_the_cache_of_processors():
    assert settings_on(CPU, container()).kv_cache_memory_bytes == GIB


@pytest.mark.parametrize(
    ("words", "element_bytes", "argument"),
    [
        pytest.param((), 2, None, id="as the model is"),
        pytest.param(("--dtype=float32", "-q", "fp8"), 4, "fp8", id="in float32, the rest in fp8"),
        pytest.param(("--dtype", "auto"), 2, None, id="auto is the model's own"),
    ],
)
def test_the_arguments_say_how_the_model_is_loaded(words, element_bytes, argument):
    model, form = loaded_as(uniform(2, 8, 128), words)
    assert (model.bytes_per_element, form.argument) == (element_bytes, argument)


@pytest.mark.parametrize("words", [("--dtype",), ("-q", "fp9")])
def test_a_model_that_cannot_be_loaded_so_is_refused(words):
    assert isinstance(loaded_as(uniform(2, 8, 128), words), Refusal)
