import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.api.reasons import TerminationClass
from stoker_serving.termination import LIMIT_BYTES, Failure, Reason, write


def test_the_classes_are_those_that_the_operator_knows():
    assert {reason.value for reason in Reason} == {reason.value for reason in TerminationClass}


@given(message=st.text(), fix=st.text(), times=st.integers(1, 2000))
def test_any_failure_fits_and_can_be_read_back(message, fix, times):
    text = Failure(reason=Reason.ENGINE_CRASHED, message=message * times, fix=fix * times).to_json()
    assert len(text.encode()) <= LIMIT_BYTES
    document = json.loads(text)
    assert document["reason"] == "EngineCrashed"
    assert (message * times).startswith(document["message"])


def test_a_short_one_is_whole(tmp_path):
    path = tmp_path / "termination-log"
    write(path, Failure(reason=Reason.DISK_FULL, message="No room: 3 of 5 GiB.", fix="Free 2 GiB."))
    assert json.loads(path.read_text()) == {
        "reason": "DiskFull",
        "message": "No room: 3 of 5 GiB.",
        "fix": "Free 2 GiB.",
    }


def test_no_place_to_write_is_an_error_for_the_caller(tmp_path):
    with pytest.raises(OSError, match="missing"):
        write(tmp_path / "missing" / "log", Failure(reason=Reason.DISK_FULL, message="m", fix="f"))
