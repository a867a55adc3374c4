"""What `docs/size.md` shows is what the command prints; `make size-page` writes it anew."""

import pytest
from tests.unit.cli.plan.shown import printed, shown


def test_the_page_shows_what_is_asked_most():
    assert len(shown()) >= 5


@pytest.mark.parametrize(("arguments", "out"), [pytest.param(*example, id=example[0]) for example in shown()])
def test_a_shown_answer_is_the_answer(here, arguments, out):
    assert printed(arguments) == out
