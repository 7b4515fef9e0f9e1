"""Views without reference counts, for compiled loops that call kernels once per round.

Wherever compiled code takes an array out of a tuple, it counts references with atomic operations. In a loop over single
rounds, these take longer than the arithmetic of a first-order learner.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba.extending
from numba.core import types

_T = TypeVar("_T")


def borrowed(value: _T) -> _T:
    """Return a value; if it is an array or a named tuple, its arrays become views that do not keep memory alive.

    The arrays must outlive the views: pass only arguments that come from the interpreter. Compiled code frees its own
    arrays after the last use of their variable, even if there are views.
    """
    return value  # in the interpreter, there is nothing to save


def _borrowed_each(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return values


@numba.extending.intrinsic
def _without_owner(context: Any, array: Any) -> Any:  # noqa: ARG001  numba's signature
    def build(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        view = target.make_array(signature.return_type)(target, builder, value=arguments[0])
        view.meminfo = view.meminfo.type(None)  # a null pointer
        return view._getvalue()  # noqa: SLF001  numba's way

    return array(array), build


# numba requires an overload and the function it returns to have equal parameters, so these are not lambdas.
@numba.extending.overload(borrowed)
def _borrow(value: Any) -> Callable[[Any], Any]:
    kind: Any = getattr(value, "instance_class", None)

    def array(value: Any) -> Any:
        return _without_owner(value)  # type: ignore[call-arg]  # numba passes the context

    def named(value: Any) -> Any:
        return kind(*_borrowed_each(value))

    def other(value: Any) -> Any:
        return value

    return array if isinstance(value, types.Array) else named if isinstance(value, types.BaseNamedTuple) else other


@numba.extending.overload(_borrowed_each)
def _borrow_each(values: Any) -> Callable[[Any], Any]:
    def last(values: Any) -> Any:
        return (borrowed(values[0]),)

    def several(values: Any) -> Any:
        return (borrowed(values[0]), *_borrowed_each(values[1:]))

    return last if len(values) == 1 else several
