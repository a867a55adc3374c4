import pytest
from e2e.file_server.faults import Faults, split


@pytest.mark.parametrize(
    ("path", "faults", "name"),
    [
        pytest.param("/tiny/config.json", Faults(), "tiny/config.json", id="a good server"),
        pytest.param("/~status=503/tiny/x", Faults(status=503), "tiny/x", id="a broken server"),
        pytest.param("/~corrupt/x", Faults(corrupt=True), "x", id="a fault without a value"),
        pytest.param(
            "/~token=s3cret,bytes_per_s=1000/x",
            Faults(token="s3cret", bytes_per_s=1000),
            "x",
            id="two faults at once",
        ),
    ],
)
def test_the_first_part_of_the_path_asks_for_faults(path, faults, name):
    assert split(path) == (faults, name)


@pytest.mark.parametrize("path", ["/~slow/x", "/~status=often/x"])
def test_a_fault_that_there_is_not_is_an_error(path):
    with pytest.raises(ValueError, match=r"slow|often"):
        split(path)
