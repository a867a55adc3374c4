"""The vocabulary of a service's status."""

import re

import pytest

from stoker.api import reasons

WORDS = [word for enum in reasons.VOCABULARY for word in enum]


@pytest.mark.parametrize("word", WORDS)
def test_a_word_is_what_metav1_allows_as_a_reason(word):
    assert re.fullmatch(r"[A-Z][A-Za-z]{0,62}", word)


@pytest.mark.parametrize("word", WORDS)
def test_a_word_explains_itself_in_one_sentence_and_says_what_to_do(word):
    for sentence in (word.meaning, word.what_to_do):
        assert re.fullmatch(r"[A-Z`][^\n]*[^.]\.", sentence)


def test_no_word_has_two_meanings():
    assert len(WORDS) == len(set(WORDS))


def test_every_enum_of_the_module_is_in_the_vocabulary():
    enums = {
        value
        for value in vars(reasons).values()
        if isinstance(value, type) and issubclass(value, reasons.Explained)
    }
    assert enums - {reasons.Explained} == set(reasons.VOCABULARY)


def test_a_word_is_a_plain_string_in_a_message_and_in_json():
    assert f"{reasons.Verdict.DOES_NOT_FIT}" == "DoesNotFit"
    assert reasons.Verdict("DoesNotFit") is reasons.Verdict.DOES_NOT_FIT
