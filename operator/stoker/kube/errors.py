"""What went wrong between us and the API server, sorted by who has to act.

Time (`RetryError`), the person who wrote the object or the rules of the cluster (`InvalidError`),
or whoever runs this process (`FatalError`). A caller that only wants to back off catches
`KubeError`. Each says a verb phrase, then one sentence: `applying Deployment demo/chat-5f3a9c01:
the API server refused it: ...`.
"""


class KubeError(Exception):
    """Something that we asked of the API server was not done."""

    def __init__(self, doing: str, because: str) -> None:
        super().__init__(f"{doing}: {because}")


class RetryError(KubeError):
    """It may work later: overload, a lost connection, a conflict, an object on its way out."""

    def __init__(self, doing: str, because: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(doing, because)
        self.retry_after_s = retry_after_s
        """What the server asked us to wait; None if it did not."""


class ConflictError(RetryError):
    """The object is no longer the one that was read."""


class AbsentError(RetryError):
    """The object, its namespace or its kind is not there (yet, or any more)."""


class InvalidError(KubeError):
    """It will not work until a person changes the object, a quota or a permission."""


class FatalError(KubeError):
    """This process cannot do its job at all: no cluster, no credentials."""
