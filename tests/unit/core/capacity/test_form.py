import pytest
from tests.unit.core.capacity import models as m

from stoker.core.capacity.architecture import Quantization
from stoker.core.capacity.catalog import ACCELERATORS
from stoker.core.capacity.form import Form, forms_to_compare, read_form
from stoker.core.model import Refusal

PLAIN = m.uniform(32, 8, 128)
FP8 = Quantization(method="fp8", bits=8, group_size=0)
STORED_FP8 = m.model(*PLAIN.layers, quantization=FP8)


def test_weights_are_as_stored_if_nothing_is_asked_for():
    assert read_form(PLAIN, None) == Form(argument=None, quantization=None)
    assert read_form(STORED_FP8, None) == Form(argument=None, quantization=FP8)


def test_the_files_decide_where_they_are_quantized():
    assert read_form(STORED_FP8, "awq") == Form(argument="awq", quantization=FP8)


def test_the_engine_makes_some_forms_as_it_loads():
    form = read_form(PLAIN, "fp8")
    assert isinstance(form, Form)
    assert form.quantization is not None
    assert form.quantization.bits == 8
    assert not form.needs_checkpoint


def test_others_need_a_checkpoint_of_their_own():
    form = read_form(PLAIN, "awq")
    assert isinstance(form, Form)
    assert form.quantization is not None
    assert form.quantization.bits == 4
    assert form.needs_checkpoint


def test_a_form_that_does_not_exist_is_refused_with_those_that_do():
    refusal = read_form(PLAIN, "fp9")
    assert isinstance(refusal, Refusal)
    assert "`fp9`" in refusal.message
    assert "fp8" in refusal.message
    assert "awq" in refusal.message


@pytest.mark.parametrize(
    ("accelerator", "arguments"),
    [
        pytest.param("nvidia-h100-80gb", [None, "fp8", "awq"], id="one that computes in 8 bits"),
        pytest.param("nvidia-a100-80gb", [None, "awq"], id="one that does not"),
        pytest.param("nvidia-b200", [None, "fp8", "awq", "modelopt_fp4"], id="one that computes in 4 bits"),
        pytest.param("amd-mi355x", [None, "fp8"], id="one whose kernels for 4 bits are others"),
        pytest.param("cpu", [None], id="a processor"),
    ],
)
def test_forms_are_compared_where_they_can_run(accelerator, arguments):
    forms = forms_to_compare(PLAIN, ACCELERATORS[accelerator])
    assert [form.argument for form in forms] == arguments


def test_quantized_weights_are_not_quantized_again():
    assert [form.argument for form in forms_to_compare(STORED_FP8, ACCELERATORS["nvidia-b200"])] == [None]
