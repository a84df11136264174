# SPDX-License-Identifier: AGPL-3.0-or-later
"""The API against its own OpenAPI description, by schemathesis: random requests, well formed and malformed."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="the page needs FastAPI (extra web)")
pytest.importorskip("schemathesis", reason="the API is tested by schemathesis (extra dev)")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case, GenerationMode

from azcaffe.web.app import create_app
from tests.web.client import Client
from tests.web.conftest import SMALL

EXAMPLES = 20
DESCRIPTION = create_app().openapi()
OPERATIONS = [(path, method) for path, operations in DESCRIPTION["paths"].items() for method in operations]
REQUESTS = [(*operation, GenerationMode.POSITIVE) for operation in OPERATIONS] + [
    (path, method, GenerationMode.NEGATIVE)
    for path, method in OPERATIONS
    if {"parameters", "requestBody"} & DESCRIPTION["paths"][path][method].keys()  # else there is nothing to break
]


@pytest.fixture(scope="session")
def schema(port: int) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_url(f"http://127.0.0.1:{port}/api/openapi.json")


@pytest.mark.parametrize(("path", "method", "mode"), REQUESTS, ids=str)
def test_the_api_keeps_to_its_description(
    schema: schemathesis.BaseSchema, path: str, method: str, mode: GenerationMode
) -> None:
    """No server error; only described statuses, content types and shapes; what breaks the description is refused.

    Random ids name no game and random texts no rules, so a refusal of a well-formed request is right (404, 409, 422).
    """

    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=schema[path][method].as_strategy(mode))
    def check(case: Case) -> None:
        case.call_and_validate(timeout=60, excluded_checks=[schemathesis.checks.positive_data_acceptance])

    check()


def test_a_real_game_under_random_requests(schema: schemathesis.BaseSchema, port: int) -> None:
    """The same against a game that exists, whose position the requests change: still nothing undescribed."""
    id_ = Client(port).post("/api/games", game=SMALL, net="rollouts", human="both").body["id"]
    for verb in ("moves", "reply", "analysis", "undo"):
        operation = schema[f"/api/games/{{id}}/{verb}"]["post"]

        @settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, phases=[Phase.generate])
        @given(case=operation.as_strategy(path_parameters={"id": id_}))
        def check(case: Case) -> None:
            case.call_and_validate(timeout=60, excluded_checks=[schemathesis.checks.positive_data_acceptance])

        check()
    assert Client(port).get(f"/api/games/{id_}").status == 200


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_every_operation_describes_its_errors(path: str, method: str) -> None:
    responses = DESCRIPTION["paths"][path][method]["responses"]
    for status in ("404", "409", "422", "503"):
        assert responses[status]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorBody")
