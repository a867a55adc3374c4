import json
import logging
import sys

import pytest

from stoker.logs import Formatter, configure


def record(**extra):
    made = logging.makeLogRecord({"name": "stoker.kube", "levelname": "INFO", "msg": "apply", "created": 0.5})
    vars(made).update(extra)
    return made


def test_text_has_the_sentence_and_then_what_varies():
    line = Formatter(as_json=False).format(record(service="demo/chat", reason="it is not there"))
    assert line == ("1970-01-01T00:00:00.500+00:00 INFO    apply service=demo/chat reason=it is not there")


def test_json_has_a_field_for_each_thing():
    line = json.loads(Formatter(as_json=True).format(record(service="demo/chat")))
    assert line == {
        "time": "1970-01-01T00:00:00.500+00:00",
        "level": "INFO",
        "logger": "stoker.kube",
        "message": "apply",
        "service": "demo/chat",
    }


@pytest.mark.parametrize("as_json", [True, False])
def test_a_traceback_is_kept(as_json):
    try:
        raise ValueError("broken")
    except ValueError:
        made = record(exc_info=sys.exc_info())
    line = Formatter(as_json=as_json).format(made)
    assert "ValueError: broken" in line
    assert len(line.splitlines()) == 1 or not as_json


def test_what_kopf_hangs_on_its_records_is_left_out():
    assert "k8s_ref" not in Formatter(as_json=False).format(record(k8s_ref={"kind": "Pod"}))


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        pytest.param("info", False, id="not by default"),
        pytest.param("debug", True, id="when looking closely"),
    ],
)
def test_kopfs_line_for_each_watch_event_is_shown(level, shown, capsys):
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        logging.getLogger("kopf").setLevel(logging.NOTSET)
        configure(as_json=False, level=level)
        logging.getLogger("kopf.objects").info("Handler succeeded.")
        assert ("Handler succeeded." in capsys.readouterr().err) == shown
    finally:
        root.handlers[:], root.level = before
        logging.getLogger("kopf").setLevel(logging.NOTSET)
