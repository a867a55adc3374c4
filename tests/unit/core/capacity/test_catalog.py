import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.core.capacity.catalog import ACCELERATORS, Accelerator, accelerator, with_prices
from stoker.core.model import Refusal

GIB = 1024**3

SLICES = [
    *(f"nvidia-a100-40gb-mig-{profile}" for profile in ("1g.5gb", "2g.10gb", "3g.20gb", "7g.40gb")),
    *(f"nvidia-a100-80gb-mig-{profile}" for profile in ("1g.10gb", "1g.20gb", "4g.40gb")),
    *(f"nvidia-h200-mig-{profile}" for profile in ("1g.18gb", "2g.35gb", "3g.71gb")),
    *(f"nvidia-b200-mig-{profile}" for profile in ("1g.23gb", "2g.45gb", "4g.90gb")),
    *(f"nvidia-gh200-96gb-mig-{profile}" for profile in ("2g.24gb", "3g.48gb")),
    *(f"nvidia-rtx-pro-6000-mig-{profile}" for profile in ("1g.24gb", "2g.48gb", "4g.96gb")),
]


@pytest.mark.parametrize("row", ACCELERATORS.values(), ids=ACCELERATORS)
def test_every_row_is_plausible(row):
    assert accelerator(row.name) is row
    assert row.vendor in ("nvidia", "amd", "intel", "google", "cpu")
    assert 14 * GIB < row.visible_bytes < 300 * GIB
    assert 250e9 < row.bandwidth_bytes_per_s < 10e12
    speeds = [s for s in (row.flops_16bit, row.flops_8bit, row.flops_4bit) if s is not None]
    assert speeds == sorted(speeds)
    assert speeds[0] > 1e12
    assert 1 <= row.per_node <= 8
    assert row.link_bytes_per_s is None or 10e9 < row.link_bytes_per_s < 1e12
    if row.price is not None:
        assert 0.1 < row.price.per_hour < 20
        assert row.price.currency == "USD"
        assert row.price.as_of.startswith("2026-")
        assert row.price.source


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        pytest.param("nvidia-t4", 14.56, id="T4"),
        pytest.param("nvidia-rtx-3090", 23.58, id="RTX 3090"),
        pytest.param("nvidia-rtx-4090", 23.53, id="RTX 4090"),
        pytest.param("nvidia-l40s", 44.42, id="L40S"),
        pytest.param("nvidia-a100-80gb", 79.15, id="A100 with 80 GB"),
        pytest.param("nvidia-h100-80gb", 79.18, id="H100"),
        pytest.param("nvidia-rtx-pro-6000", 95.01, id="RTX PRO 6000"),
        pytest.param("nvidia-h200", 139.8, id="H200"),
    ],
)
def test_memory_is_what_drivers_report(name, gib):
    assert ACCELERATORS[name].visible_bytes / GIB == pytest.approx(gib)
    assert not ACCELERATORS[name].estimated


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param("h100", "did you mean `nvidia-h100-80gb`?", id="the model alone"),
        pytest.param("H100-SXM", "did you mean `nvidia-h100-80gb`?", id="the model with its form"),
        pytest.param("nvidia-h100", "did you mean `nvidia-h100-80gb`?", id="memory forgotten"),
        pytest.param("a100-80g", "did you mean `nvidia-a100-80gb`?", id="g for gb, no vendor"),
        pytest.param("nvidia-a100-80g", "did you mean `nvidia-a100-80gb`?", id="g for gb"),
        pytest.param(
            "a100", "did you mean `nvidia-a100-40gb` or `nvidia-a100-80gb`?", id="both sizes are offered"
        ),
        pytest.param("l40s", "did you mean `nvidia-l40s`?", id="an L40S is no L4"),
        pytest.param("L4", "did you mean `nvidia-l4`?", id="an L4 is no L40S"),
        pytest.param("gh200", "or `nvidia-gh200-144gb`?", id="a GH200 is no H200"),
        pytest.param("4090", "did you mean `nvidia-rtx-4090`?", id="the number alone"),
        pytest.param(
            "NVIDIA-A100-SXM4-80GB", "did you mean `nvidia-a100-80gb`?", id="what the node's label says"
        ),
        pytest.param("AMD_Instinct_MI300X_OAM", "did you mean `amd-mi300x`?", id="AMD's label"),
        pytest.param("mi300", "did you mean `amd-mi300x`?", id="a letter forgotten"),
        pytest.param("v5e", "did you mean `google-tpu-v5e`?", id="a TPU's version"),
        pytest.param("gaudi-3", "did you mean `intel-gaudi3`?", id="another hyphen"),
        pytest.param("zx81", "it has nvidia-t4, nvidia-l4,", id="nothing like it: the whole list"),
        pytest.param("", "it has nvidia-t4, nvidia-l4,", id="no name"),
    ],
)
def test_another_spelling_is_refused_with_the_right_one(written, meant):
    refused = accelerator(written)
    assert isinstance(refused, Refusal)
    assert refused.reason == "UnknownAccelerator"
    assert refused.message.startswith(f"There is no accelerator `{written}` in the catalogue; ")
    assert meant in refused.message


def test_a_slice_has_its_share_of_the_card():
    card = ACCELERATORS["nvidia-h100-80gb"]
    part = accelerator("nvidia-h100-80gb-mig-3g.40gb")
    assert isinstance(part, Accelerator)
    assert part.name == "nvidia-h100-80gb-mig-3g.40gb"
    assert part.visible_bytes == 39.25 * GIB
    assert part.bandwidth_bytes_per_s == card.bandwidth_bytes_per_s / 2
    assert part.flops_16bit == pytest.approx(card.flops_16bit * 3 / 7)
    assert part.flops_8bit == pytest.approx(card.flops_8bit * 3 / 7)
    assert part.flops_4bit is None
    assert part.price.per_hour == card.price.per_hour / 2
    assert (part.link_bytes_per_s, part.per_node) == (None, 1)


@pytest.mark.parametrize("name", SLICES)
def test_a_slice_never_exceeds_its_card(name):
    part = accelerator(name)
    card = ACCELERATORS[name.partition("-mig-")[0]]
    assert isinstance(part, Accelerator)
    assert part.visible_bytes <= card.visible_bytes
    share = part.bandwidth_bytes_per_s / card.bandwidth_bytes_per_s
    assert share in (0.125, 0.25, 0.5, 1)
    assert part.visible_bytes / card.visible_bytes == pytest.approx(share, rel=0.1)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param(
            "nvidia-h100-80gb-mig-5g.60gb",
            "There is no slice `5g.60gb` of `nvidia-h100-80gb`; "
            "it has 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb.",
            id="a profile that the card does not have",
        ),
        pytest.param(
            "nvidia-l4-mig-1g.5gb",
            "There is no slice `1g.5gb` of `nvidia-l4`; it can't be cut into slices.",
            id="a card without slices",
        ),
        pytest.param(
            "h100-mig-3g.40gb",
            "There is no accelerator `h100-mig-3g.40gb` in the catalogue; did you mean `nvidia-h100-80gb`?",
            id="a slice of a card that has another name",
        ),
    ],
)
def test_a_slice_that_does_not_exist_is_refused(name, message):
    refused = accelerator(name)
    assert isinstance(refused, Refusal)
    assert refused.message == message


def test_prices_of_your_own_replace_those_of_the_list():
    catalogue = with_prices({"nvidia-l40s": 0.9, "nvidia-h100-80gb-mig-1g.10gb": 0.5}, currency="EUR")
    assert not isinstance(catalogue, Refusal)
    assert catalogue["nvidia-l40s"].price.per_hour == 0.9
    assert catalogue["nvidia-l40s"].price.currency == "EUR"
    assert catalogue["nvidia-l40s"].price.source == "given"
    assert accelerator("nvidia-h100-80gb-mig-1g.10gb", among=catalogue).price.per_hour == 0.5
    assert catalogue["nvidia-l4"] is ACCELERATORS["nvidia-l4"]


@pytest.mark.parametrize("amount", [0, -1, 1e9, float("nan"), float("inf")])
def test_a_price_that_is_none_is_refused(amount):
    refused = with_prices({"nvidia-l4": amount})
    assert isinstance(refused, Refusal)
    assert (
        refused.message
        == f"The price of `nvidia-l4` is {amount:g} an hour; give one above 0, below 1,000,000."
    )


def test_a_price_for_an_unknown_accelerator_is_refused():
    refused = with_prices({"l4": 1})
    assert isinstance(refused, Refusal)
    assert "did you mean `nvidia-l4`?" in refused.message


@settings(max_examples=60)
@given(st.text(max_size=30))
def test_whatever_is_written_gets_an_answer(name):
    answer = accelerator(name)
    assert name in ACCELERATORS or (
        isinstance(answer, Refusal) and answer.message.count("\n") <= name.count("\n")
    )
