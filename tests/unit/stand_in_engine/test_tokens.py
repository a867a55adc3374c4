import pytest
from e2e.stand_in_engine import tokens
from e2e.stand_in_engine.tokens import Answer, WrongAnswer
from hypothesis import given
from hypothesis import strategies as st


def test_the_example_of_the_docstring():
    assert tokens.split("hello wonderful world") == ["hello", " wonderfu", "l", " world"]


@given(st.text())
def test_tokens_are_the_text(text):
    assert "".join(tokens.split(text)) == text
    assert all(len(piece) <= tokens.MOST_CHARACTERS for piece in tokens.split(text))


@given(st.text(), st.lists(st.integers(0, 9), max_size=9))
def test_an_answer_is_the_same_however_it_is_cut(prompt, sizes):
    answer, start, pieces = Answer(prompt), 0, []
    for size in sizes:
        pieces.append(answer.text(start, start + size))
        start += size
    assert "".join(pieces) == answer.text(0, start)


@pytest.mark.parametrize(
    ("prompt", "count", "expected"),
    [
        pytest.param("hello world", 5, "hello world hello world hello", id="the prompt, over and over"),
        pytest.param(" hi ", 2, "hi hi", id="without the white space around it"),
        pytest.param("", 2, "nothing nothing", id="an empty prompt still has an answer"),
    ],
)
def test_the_answer_repeats_the_prompt(prompt, count, expected):
    assert Answer(prompt).text(0, count) == expected


def test_a_wrong_answer_has_one_mark_for_each_token():
    assert WrongAnswer().text(3, 7) == "!!!!"


def test_content_may_come_in_parts():
    parts = [{"type": "text", "text": "one"}, {"type": "image_url"}, {"type": "text", "text": "two"}]
    assert tokens.content_of({"role": "user", "content": parts}) == "one\ntwo"
