"""Requests from openapi.json: of each operation alone, and in chains along the links."""

import asyncio
import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Flaky
from schemathesis import GenerationMode
from schemathesis.core.transport import Response
from schemathesis.generation.stateful import run_state_machine_as_test

from tests.fuzz.api.attack import Attack
from tests.service.api_description import api_description

_VARIANTS = 4
"""How often a case is sent: as generated, then by other callers, to other models and predictions."""

_STEPS = 25
_TOGETHER = 8
"""Chains of one seed; the first one makes the simplest choices."""


def _settings(examples: int) -> settings:
    return settings(
        deadline=None,
        database=None,
        max_examples=examples,
        phases=[Phase.generate],
        stateful_step_count=_STEPS,
        suppress_health_check=list(HealthCheck),
    )


class Generator:
    """Generates requests for one worker.

    Args:
        runner: of the worker.
        attack: sends and checks the requests.
    """

    def __init__(self, runner: asyncio.Runner, attack: Attack) -> None:
        self._runner, self._attack, self._number = runner, attack, 0
        self._schema = schemathesis.openapi.from_dict(copy.deepcopy(api_description()))
        self._operations: list[Any] = [each.ok() for each in list[Any](self._schema.get_all_operations())]

    def alone(self, number: int, examples: int) -> Iterator[None]:
        """Send valid and invalid requests of each operation; yield after each operation.

        Args:
            number: the seed.
            examples: requests of each kind and operation.
        """
        for operation in self._operations:
            raw = operation.definition.raw
            modes = GenerationMode if raw.get("parameters") or raw.get("requestBody") else [GenerationMode.POSITIVE]
            for mode in modes:
                self._examples(operation, mode, number, examples)
            yield

    def chains(self, number: int, examples: int) -> Iterator[None]:
        """Send chains of requests along the links; yield after some chains.

        Args:
            number: the seed.
            examples: the number of chains.
        """
        machine, last = _machine(self._schema, self._send), number * 1000 + examples
        for each in range(last - examples, last, _TOGETHER):
            machine._hypothesis_internal_use_seed = each
            with contextlib.suppress(Flaky):  # the same choices may meet other models than in an earlier chain
                run_state_machine_as_test(machine, settings=_settings(_TOGETHER))
            yield

    def _examples(self, operation: Any, mode: GenerationMode, number: int, examples: int) -> None:
        @seed(number)
        @_settings(examples)
        @given(operation.as_strategy(generation_mode=mode))
        def send(case: Any) -> None:
            generated = case.path_parameters, case.headers, case.body
            for variant in range(_VARIANTS if self._attack.can_lead(operation) else 1):
                case.path_parameters, case.headers, case.body = generated
                self._runner.run(self._attack.answer(case, led=variant > 0))

        send()

    def _send(self, case: Any) -> httpx2.Response | None:
        self._number += 1
        return self._runner.run(self._attack.answer(case, led=self._number % 2 == 0))


def _machine(schema: Any, send: Callable[[Any], httpx2.Response | None]) -> Any:
    """Return schemathesis' state machine, which sends requests with the function and checks nothing itself."""

    class Machine(schema.as_state_machine()):  # type: ignore[misc]
        def call(self, case: Any, **_: Any) -> Response:
            return _of_schemathesis(send(case))

        def validate_response(self, *_: Any, **__: Any) -> None:
            """Leave the checks to the attack."""

    return Machine


def _of_schemathesis(response: httpx2.Response | None) -> Response:
    """Return an answer as schemathesis reads it; status 0 if there was no request."""
    request = requests.Request("GET", "http://localhost/").prepare()
    if response is None:
        return Response(0, {}, b"", request, 0.0, verify=False)
    headers = {name.lower(): [value] for name, value in response.headers.items()}
    return Response(response.status_code, headers, response.content, request, 0.0, verify=False, encoding="utf-8")
