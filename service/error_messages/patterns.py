"""The patterns of names and ids, their rules in words, and the limits that requests and files share."""

MOST_MODEL_NAME = 64  # maximum characters of the name of a model
_MODEL = rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{MOST_MODEL_NAME - 1}}}"
_TOKEN = r"(0|[1-9][0-9]{0,14})"

NAME = rf"^{_MODEL}$"  # the name of a model
PREFIX = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$"  # the prefix of the model names that `wager load` generates
CURSOR = rf"^$|{NAME}|^(traffic|reward|trouble):-?([0-9]{{1,20}}(\.[0-9]{{1,20}})?(e[+-]?[0-9]{{1,3}})?|inf):{_MODEL}$"
"""A place in a list of models: in name order, the name of a model; in others, also the order and a number. Or empty."""

SCAN_CURSOR = r"^([0-9]{1,4}\.[0-9]{1,19})?$"  # a position in a scan of the store, or empty
GIVEN_ID = rf"^({_MODEL}:)?[A-Za-z0-9._=+/@-][A-Za-z0-9._~=+/@-]{{0,127}}$"  # a prediction id that a client chooses

_BLOCK = r"[A-Za-z0-9._~=+/@-]{1,128}"

QUALIFIED_ID = rf"^{_MODEL}:{_BLOCK}(:{_TOKEN})?$"
"""A prediction id: its model, its block and, if it has one, its token (see `service.prediction_id`)."""

QUALIFIED_PARTS = rf"({_MODEL}):({_BLOCK})(?::{_TOKEN})?"
"""The same without anchors, and with groups for the model, the block and the token."""

KEY_GLOB = r"^[A-Za-z0-9._*-]{1,64}$"
"""A pattern of model names, in which `*` matches any number of characters."""

KEY_LIMIT = r"^[1-9][0-9]{0,8}/(second|minute|hour|day)$"  # the request limit of an API key

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME_OF_HOST = rf"{_LABEL}(?:\.{_LABEL})*"

ORIGIN = (
    r"^(?:http://(?![^/]*:80$)|https://(?![^/]*:443$))"
    rf"(?:{_NAME_OF_HOST}|\[[0-9a-f:.]+\])(?::[1-9][0-9]{{0,4}})?$"
)
"""The origin of a page, as browsers send it: in lower case, without the default port."""

HOST_NAME = rf"^(?=.{{1,253}}$){_NAME_OF_HOST}$"  # the name of a host
SOURCE = r"^[!-~]+$"  # the name of a source of imported rounds
DIGEST = r"^[0-9a-f]{64}$"  # a SHA-256 in hex
DIGITS = r"^[01]*$"  # a set of labels: for each label of the model, 1 if it is in the set

_NAME_RULE = "1 to 64 letters, digits, dots, hyphens or underscores, the first a letter or digit"

BYTES = r"^\s*(\d*\.?\d+)\s*(\w+)?"  # pydantic's pattern of a size in bytes

RULES = {
    BYTES: 'a size such as "64MiB"',
    NAME: f"a string of {_NAME_RULE}",
    PREFIX: "1 to 48 letters, digits, dots, hyphens or underscores, the first a letter or digit",
    CURSOR: "the next_cursor of the previous page",
    SCAN_CURSOR: "the cursor in the Link header of the previous page",
    GIVEN_ID: "a string of 1 to 128 letters, digits or . _ ~ = + / @ -, not beginning with ~, "
    "after an optional model's name and colon",
    QUALIFIED_ID: "a string of the model's name, a colon, and 1 to 128 letters, digits or . _ ~ = + / @ -, "
    "as /predict returns it",
    KEY_GLOB: "1 to 64 letters, digits, dots, hyphens, underscores or asterisks, such as shop-*",
    KEY_LIMIT: "a number of requests per second, minute, hour or day, such as 100/second",
    ORIGIN: "an origin such as https://shop.example or http://localhost:3000: lower case, without a path, a slash at "
    "the end, or the default port; a port is at most 65535",
    HOST_NAME: "a host name such as wager.example: lower case, without a scheme, a port, or a dot at the end, each "
    "part between dots of 1 to 63 characters",
    SOURCE: "printable ASCII characters without spaces",
    DIGEST: "64 hexadecimal digits",
    DIGITS: 'a string of one digit per label, 0 or 1, such as "110"',
}
"""The rule of each pattern, in words."""


MOST_NAME, MOST_TEXT, MOST_DEPTH = 256, 1024, 8
"""Maximum characters of a feature's path and of a string; maximum depth of nested objects, the context included."""

LEAST_PROPENSITY = 1e-12
"""Minimum propensity in imported rounds. A smaller one must be a mistake, and would outweigh all other rounds."""

MOST_COST = 1e6
"""Maximum cost of an answer, and maximum weight of costs."""

CLOCK_SECONDS = 300.0  # the most by which a client's clock may be ahead of the service's
