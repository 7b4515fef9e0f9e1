"""The laws of prediction ids: parsing inverts formatting, and malformed ids are refused."""

import pydantic
import pytest

from service.prediction_id import SINGLE, PredictionId
from service.schemas.rounds import GivenId, QualifiedId

QUALIFIED: pydantic.TypeAdapter[PredictionId] = pydantic.TypeAdapter(QualifiedId)
GIVEN: pydantic.TypeAdapter[PredictionId] = pydantic.TypeAdapter(GivenId)
WIRE_FORMS = {
    "m:a": PredictionId("m", "a"),
    "m:~AZ09_-=": PredictionId("m", "~AZ09_-="),
    "m:~block:0": PredictionId("m", "~block", 0),
    f"m:~block:{2**48 - 1}": PredictionId("m", "~block", 2**48 - 1),
    "a.model_of-64:mine@example/1+2=3:999999999999999": PredictionId("a.model_of-64", "mine@example/1+2=3", 10**15 - 1),
}
HOSTILE = ["", "x", "-1", "+1", "00", "1_0", "\u0663", "\u00b2", "9" * 16, "9" * 30, "1:1", " 1", "1\n", "9" * 5000]


@pytest.mark.parametrize(("text", "value"), WIRE_FORMS.items())
def test_parsing_inverts_formatting(text: str, value: PredictionId) -> None:
    assert PredictionId.parse(text) == QUALIFIED.validate_python(text) == value
    assert str(value) == text


@pytest.mark.parametrize("token", HOSTILE)
def test_tokens_in_other_forms_are_refused(token: str) -> None:
    with pytest.raises(pydantic.ValidationError, match="should match pattern"):
        QUALIFIED.validate_python(f"m:~block:{token}")


@pytest.mark.parametrize(("text", "model"), [("mine", ""), ("m:mine", "m")])
def test_a_client_may_leave_the_model_out(text: str, model: str) -> None:
    assert GIVEN.validate_python(text) == (model, "mine", SINGLE)


@pytest.mark.parametrize("text", ["~", "~mine", "m:~mine", "a:b:~c", "m:~"])
def test_a_client_cannot_use_an_id_of_the_service(text: str) -> None:
    with pytest.raises(pydantic.ValidationError, match="begin with ~"):
        GIVEN.validate_python(text)


@pytest.mark.parametrize("text", ["a~", "m:a~b"])
def test_a_tilde_is_allowed_after_the_first_character(text: str) -> None:
    assert GIVEN.validate_python(text).block == text.removeprefix("m:")
