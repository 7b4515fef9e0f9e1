"""The errors that only requests for several slots raise."""

from service.input_errors import InvalidInputError


class TopUnsupportedError(InvalidInputError):
    """A request for several slots to a model that answers several labels."""


class TooFewChoicesError(InvalidInputError):
    """A request has more slots than eligible labels or actions."""


class TopTooLargeError(InvalidInputError):
    """The slots of a request need too many bytes in the store."""
