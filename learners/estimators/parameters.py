"""The conventions of scikit-learn's estimators, without scikit-learn: parameters, their copies and their display."""

import inspect
from typing import Any, Self, TypeVar

SelfT = TypeVar("SelfT", bound="WithParameters")


class WithParameters:
    """An estimator whose parameters are the arguments of its constructor, which stores each under its name."""

    @classmethod
    def _parameters(cls) -> dict[str, Any]:
        """Return the default of each parameter."""
        signature = inspect.signature(cls)
        return {name: parameter.default for name, parameter in signature.parameters.items()}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Args:
            deep: for scikit-learn; no parameter has parameters.
        """
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name and return the estimator. They take effect at the next `fit`.

        Raises:
            ValueError: if there is no such parameter.
        """
        known = self._parameters()
        for name in parameters:
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: {sorted(known)}."
                )
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """Return the constructor's call, without the defaults."""
        defaults, given = self._parameters(), self.get_params()
        shown = [f"{name}={value!r}" for name, value in given.items() if repr(value) != repr(defaults[name])]
        return f"{type(self).__name__}({', '.join(shown)})"

    def __sklearn_tags__(self) -> Any:
        """Return the tags of a classifier of dense and sparse features. Only scikit-learn calls this."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags  # noqa: PLC0415  no requirement

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            transformer_tags=None,
            regressor_tags=None,
            input_tags=InputTags(sparse=True),
        )
