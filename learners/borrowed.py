"""Views without reference counts, for compiled loops that call kernels once per round.

Wherever compiled code takes an array out of a tuple, it counts references with atomic operations. In a loop over single
rounds, these take longer than the arithmetic of a first-order learner.
"""

from typing import Any, TypeVar

import numba.extending
from numba.core import types

_T = TypeVar("_T")


def borrowed(value: _T) -> _T:
    """Return a value; if it is an array or a tuple, its arrays become views that do not keep memory alive.

    The other members of a tuple are numbers.
    The arrays must outlive the views: pass only arguments that come from the interpreter. Compiled code frees its own
    arrays after the last use of their variable, even if there are views.
    """
    return value  # in the interpreter, there is nothing to save


@numba.extending.overload(borrowed)
def _borrow(value: Any) -> Any:  # noqa: ARG001  numba requires the parameters of the function that it returns

    def borrow(value: Any) -> Any:
        return _without_owners(value)  # type: ignore[call-arg]  # numba passes the context

    return borrow


@numba.extending.intrinsic
def _without_owners(context: Any, value: Any) -> Any:  # noqa: ARG001  numba's signature
    def build(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _without(target, builder, signature.return_type, arguments[0])

    return value(value), build


def _without(target: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Build the value without owners in one function: an overload for each tuple would take seconds to compile."""
    if isinstance(kind, types.Array):
        view = target.make_array(kind)(target, builder, value=value)
        view.meminfo = view.meminfo.type(None)  # a null pointer
        return view._getvalue()  # noqa: SLF001  numba's way
    if isinstance(kind, types.Number | types.Boolean):
        return value
    parts = [_without(target, builder, each, builder.extract_value(value, i)) for i, each in enumerate(kind)]
    return target.make_tuple(builder, kind, parts)
