"""Refusals in the shape and words of vLLM 0.32, as recorded from it."""

from typing import Any


class ApiError(Exception):
    """A request that is answered with an error."""

    def __init__(self, message: str, *, status: int, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.document: dict[str, Any] = {
            "error": {"message": message, "type": kind, "param": param, "code": status}
        }


def bad_value(message: str, *, param: str | None = None, value: Any = None) -> ApiError:
    """A value that vLLM checks by itself."""
    details = [
        f"{key}={given}" for key, given in (("parameter", param), ("value", value)) if given is not None
    ]
    text = f"{message} ({', '.join(details)})" if details else message
    return ApiError(text, status=400, kind="BadRequestError", param=param)


def bad_body(kind: str, *, at: str, message: str, given: Any, why: str | None = None) -> ApiError:
    """A body that does not have the shape of a request, in pydantic's words."""
    detail: dict[str, Any] = {"type": kind, "loc": at, "msg": message, "input": _summary(given)}
    if why is not None:
        detail["ctx"] = {"error": why}
    return ApiError(f"1 validation error:\n  {detail}", status=400, kind="Bad Request", param=at)


def wrong_media_type() -> ApiError:
    """A body that is not said to be JSON."""
    text = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
    return ApiError(text, status=400, kind="Bad Request")


def unknown_model(name: str, *, served: list[str]) -> ApiError:
    """A model that this engine does not serve."""
    return ApiError(
        f"The model `{name}` does not exist. Valid aliases: {', '.join(served)}.",
        status=404,
        kind="NotFoundError",
        param="model",
    )


def queue_full() -> ApiError:
    """More requests than `--max-num-queued-reqs` allows."""
    return ApiError(
        "The engine is currently busy and cannot accept new requests. "
        "Please try again later or on a different instance.",
        status=503,
        kind="Service Unavailable",
    )


def engine_dead() -> ApiError:
    """The engine behind the server has ended."""
    return ApiError(
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        status=500,
        kind="InternalServerError",
    )


def on_command(status: int) -> ApiError:
    """A failure that `faults.error_share` asked for."""
    return ApiError("Internal server error", status=status, kind="InternalServerError")


def _summary(given: Any) -> Any:
    if isinstance(given, dict | list):
        return f"<{type(given).__name__} of {len(given)} items>"
    return given if isinstance(given, str) else str(given)
