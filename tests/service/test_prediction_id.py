"""The laws of prediction ids: the wire form and the value say the same, and what is no id is refused."""

import pydantic
import pytest

from service.prediction_id import SINGLE, PredictionId
from service.schemas.ids import GivenId, QualifiedId

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
def test_the_wire_form_is_the_value(text: str, value: PredictionId) -> None:
    """Parsed and written again, alone and in a request, an id is the same, to the character."""
    assert PredictionId.parse(text) == QUALIFIED.validate_python(text) == value
    assert str(value) == text


@pytest.mark.parametrize("token", HOSTILE)
def test_hostile_tokens_are_no_ids(token: str) -> None:
    """What is not written as the service writes tokens names no prediction."""
    with pytest.raises(pydantic.ValidationError, match="should match pattern"):
        QUALIFIED.validate_python(f"m:~block:{token}")


@pytest.mark.parametrize(("text", "model"), [("mine", ""), ("m:mine", "m")])
def test_a_client_may_leave_the_model_out(text: str, model: str) -> None:
    """Its own id has no token, and no model where it names none."""
    assert GIVEN.validate_python(text) == (model, "mine", SINGLE)


@pytest.mark.parametrize("text", ["~", "~mine", "m:~mine", "a:b:~c", "m:~"])
def test_a_client_gives_no_id_of_the_service(text: str) -> None:
    """Whatever else is wrong with it, it is refused with the rule."""
    with pytest.raises(pydantic.ValidationError, match="begin with ~"):
        GIVEN.validate_python(text)


@pytest.mark.parametrize("text", ["a~", "m:a~b"])
def test_a_tilde_elsewhere_is_the_clients(text: str) -> None:
    """The rule is about the first character."""
    assert GIVEN.validate_python(text).block == text.removeprefix("m:")
