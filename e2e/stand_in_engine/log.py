"""Log lines in vLLM's form, on standard output: process, pid, level, time, place, message."""

import logging
import os
import sys

API_SERVER = "APIServer"
ENGINE_CORE = "EngineCore"
"""vLLM runs these in processes of their own; here they are names in the log."""


class _Formatter(logging.Formatter):
    """Every line of a message gets the prefix, as in vLLM."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as vLLM would print it."""
        text = super().format(record)
        prefix, _, message = text.partition("\t")
        return "\n".join(prefix + line for line in message.split("\n"))


def logger(process: str) -> logging.Logger:
    """The log of one of vLLM's processes."""
    log = logging.getLogger(f"stand_in_engine.{process}")
    if not log.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(
            _Formatter(
                f"({process} pid={os.getpid()}) "
                "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] \t%(message)s",
                datefmt="%m-%d %H:%M:%S",
            )
        )
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        log.propagate = False
    return log
