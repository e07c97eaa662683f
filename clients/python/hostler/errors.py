"""The error of all calls."""

from __future__ import annotations

from typing import Any, Dict, Optional

NO_ANSWER = "no_answer"
CLIENT_TIMEOUT = "client_timeout"
INVALID_ANSWER = "invalid_answer"
CLOSED = "closed"

# Of errors that end by themselves: x-temporary-codes of the server's document. All other
# codes are final.
TEMPORARY_CODES = ("engine_unavailable", "not_ready", "storage_unavailable", "timeout", "wrong_version")
# Of answers without a code: of a proxy whose server does not answer.
TEMPORARY_STATUSES = (502, 503, 504)


class HostlerError(Exception):
    """An answer that is an error, or none.

    status is that of HTTP, and 0 if there was no answer. code names the kind of
    error: one of the server's, as in its docs/api.md, empty if something else than
    Hostler answered, or of this client: no_answer (the server cannot be reached, or
    the connection broke), client_timeout, invalid_answer and closed. retry_after is
    in seconds, None if the server has not sent it. problem is the whole answer.
    """

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        retry_after: Optional[float] = None,
        problem: Optional[Dict[str, Any]] = None,
    ) -> None:
        super().__init__(status, code, detail, retry_after, problem)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after = retry_after
        self.problem: Dict[str, Any] = problem or {}

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}" if self.code else self.detail

    @property
    def is_temporary(self) -> bool:
        """Whether its cause ends by itself, so that the request may succeed later."""
        if self.code == "":
            return self.status in TEMPORARY_STATUSES
        return self.code in (NO_ANSWER, CLIENT_TIMEOUT) or self.code in TEMPORARY_CODES
