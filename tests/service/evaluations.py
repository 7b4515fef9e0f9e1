"""Evaluations of flags over HTTP, and their failures."""

from typing import Any

import httpx2

FLAGS = "/ofrep/v1/evaluate/flags"


def failure_of(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """Check that a response is a failure in the shape of OFREP; return it."""
    assert response.headers["content-type"] == "application/json", response.text
    body: dict[str, Any] = response.json()
    assert (response.status_code, body["errorCode"]) == (status, code), response.text
    assert set(body) <= {"key", "errorCode", "errorDetails"}
    assert body["errorDetails"]
    return body
