"""Settings of the service: each field is one environment variable, with its default and its range."""

import base64
import ipaddress
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, ByteSize, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from service.error_messages.patterns import HOST_NAME, KEY_GLOB, NAME, ORIGIN, RULES
from service.error_messages.values import joined, quoted
from service.store.connections.addresses import Kind, TlsFiles, parse_store_url

_PREFIX = "WAGER_"
_KIB, _MIB, _GIB, _TIB = 2**10, 2**20, 2**30, 2**40
_OF_EMBEDDED = frozenset({"appendfsync", "disk_reserve_bytes", "memory_limit_bytes"})
"""The settings refused with a store URL. The data directory is not one of them: the container image sets it."""

FOREIGN = {
    *("api_key", "base_url"),  # the client, and the commands that use a service
    *("balance", "publish", "replicas", "store", "store_memory"),  # docker-compose.yml
    "kernels",  # the entry point of the container image
    *("locust_model", "open_bandit", "test_folder"),  # benchmarks and tests
}
"""Variables that have the prefix but are not settings: their names without the prefix, in lower case."""

_OF_KUBERNETES = re.compile(r"(\w+_)?(service_host|service_port(_\w+)?|port_\d+_(tcp|udp|sctp)(_(proto|port|addr))?)")
"""Variables that Kubernetes sets in each container of a namespace that has a Service named `wager` or `wager-...`."""

FEEDBACK_FIELDS = ("prediction_id", "correct", "reward", "true_label", "true_labels")

_LINK = re.compile(r"(tcp|udp|sctp)://")
"""The beginning of the values that Kubernetes gives to `WAGER_PORT` and `WAGER_..._PORT`."""


def _check_store_url(url: str) -> str:
    parse_store_url(url)
    return url


def _check_host(host: str) -> str:
    try:
        host.encode("idna")  # as `socket` does
    except UnicodeError:
        parts = "each part between dots has 1 to 63 characters"
        raise ValueError(f"must be an IP address or a host name; {parts}") from None
    return host


def _check_folder(path: Path) -> Path:
    try:
        list(path.iterdir())
    except OSError as error:
        raise ValueError(f"must be the path of a directory that can be read: {error.strerror}") from None
    return path


def _check_webhook_secrets(secrets: SecretStr) -> SecretStr:
    if not (words := _words(secrets)):
        raise ValueError(
            "needs at least one secret: whsec_ and the base64 of 24 to 64 bytes; separate several with commas"
        )
    for number, word in enumerate(words, 1):
        models, secret = _of_models(word)
        if not _is_webhook_secret(secret):
            raise ValueError(f"secret {number} is not whsec_ and the base64 of 24 to 64 bytes")
        if not re.fullmatch(KEY_GLOB, models):
            raise ValueError(f"secret {number}: the pattern of its models must be {RULES[KEY_GLOB]}")
    return secrets


def _of_models(word: str) -> tuple[str, str]:
    """Return the pattern of a webhook secret's models, and the secret: `shop-*=whsec_...`, or `whsec_...` for all."""
    models, equals, secret = word.partition("=whsec_")
    return (models, f"whsec_{secret}") if equals else ("*", word)


def _member_path(word: str) -> tuple[str, list[str]]:
    """Split `field=path.of.a.member`."""
    field, _, path = word.partition("=")
    return field.strip(), path.strip().split(".")


def _is_member(word: str) -> bool:
    field, path = _member_path(word)
    return field in FEEDBACK_FIELDS and all(path)


def _words(secrets: SecretStr) -> list[str]:
    return secrets.get_secret_value().replace(",", " ").split()


def _list_of(fits: Callable[[str], object], refusal: str) -> AfterValidator:
    """Return a check of comma-separated names. In the error, the name that does not fit replaces `%`."""

    def check(names: str) -> str:
        if names and not _split(names):
            raise ValueError("must name at least one, or be empty")
        for name in _split(names):
            if not fits(name):
                raise ValueError(refusal.replace("%", quoted(name)))
        return names

    return AfterValidator(check)


def _is_origin(text: str) -> bool:
    try:
        return bool(re.fullmatch(ORIGIN, text) and urlsplit(text).port != 0)
    except ValueError:  # the port is too large, or the IPv6 address is wrong
        return False


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


_Origins = Annotated[str, _list_of(_is_origin, f"got %; each must be {RULES[ORIGIN]}")]
_Members = Annotated[
    str, _list_of(_is_member, f"got %; each must be a field ({joined(FEEDBACK_FIELDS, 'or')}), =, and names with dots")
]
_HostNames = Annotated[str, _list_of(re.compile(HOST_NAME).fullmatch, f"got %; each must be {RULES[HOST_NAME]}")]
_ModelNames = Annotated[str, _list_of(re.compile(NAME).fullmatch, "must be model names, separated by commas")]


def _is_webhook_secret(word: str) -> bool:
    try:
        return word.startswith("whsec_") and 24 <= len(base64.b64decode(word[6:], validate=True)) <= 64
    except ValueError:
        return False


class _Fault(str):
    """Replaces an unusable value of a setting, and explains why it is unusable."""


def _looks_ours(name: str) -> bool:
    return name.upper().startswith(_PREFIX)


def _read_files(folder: str | Path | None) -> dict[str, str]:
    try:
        paths = list(Path(folder).iterdir()) if folder else []
    except (OSError, ValueError):  # the validation of `secrets_dir` refuses the folder
        return {}
    return {path.name: text for path in paths if _looks_ours(path.name) and (text := _text_of(path))}


def _text_of(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():  # reading a pipe would block
            return _Fault("its entry in secrets_dir must be a file")
        return path.read_text("utf-8").strip()
    except UnicodeDecodeError:
        return _Fault("its file in secrets_dir must have UTF-8 text")
    except OSError as error:
        return _Fault(f"its file in secrets_dir cannot be read: {error.strerror}")


def _by_setting(given: Mapping[str, str]) -> dict[str, str]:
    names: dict[str, list[str]] = {}
    for name in sorted(given):
        names.setdefault(_setting_of(name), []).append(name)
    return {
        setting: given[several[0]] if len(several) == 1 else _Fault(f"is given twice, as {joined(several, 'and')}")
        for setting, several in names.items()
        if setting in Settings.model_fields
    }


def _setting_of(name: str) -> str:
    return name[len(_PREFIX) :].lower()


def _is_known(name: str, value: str) -> bool:
    link = name.endswith("_port") and _LINK.match(value)
    return bool(name in Settings.model_fields or name in FOREIGN or _OF_KUBERNETES.fullmatch(name) or link)


class Settings(BaseSettings):
    """The settings of one service, shared by all of its workers.

    An argument overrides the environment variable (``WAGER_PORT``, ...). An empty variable counts as unset. A setting
    whose variable is unset is read from the directory `secrets_dir`, if given: from the file with the variable's name
    (``WAGER_STORE_URL``, in upper or lower case); an empty file counts as unset too. Sizes are in bytes and may have a
    unit (``64MiB``). An unknown variable or file with the prefix is an invalid setting, unless another part of Wager or
    Kubernetes uses it. So is a setting given twice, by two variables or by two files.

    Raises:
        pydantic.ValidationError: from the constructor. Names every invalid setting, without its value, which may be
            secret.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        use_attribute_docstrings=True,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    host: Annotated[str, AfterValidator(_check_host)] = Field("127.0.0.1", min_length=1)
    """Address to listen on."""
    port: int = Field(8000, ge=1, le=65535)
    """TCP port to listen on."""
    data_dir: Path = Path("wager-data")
    """Directory of the embedded store."""
    store_url: Annotated[str, AfterValidator(_check_store_url)] | None = None
    """URL of the Redis or Valkey to use instead of the embedded store."""
    store_ca_file: Path | None = None
    """CA certificates (PEM) that may verify the store's certificate, in addition to the system's."""
    store_cert_file: Path | None = None
    """Client certificate (PEM) for the store."""
    store_key_file: Path | None = None
    """Private key (PEM) of the client certificate; unset: it is in the certificate's file."""
    appendfsync: Literal["always", "everysec"] = Field(
        "everysec",
        validate_default=False,  # only a given one is refused with a store URL
        description="When the embedded store flushes to disk: at every write, or every second; then a power loss may "
        "lose up to two seconds.",
    )
    disk_reserve_bytes: ByteSize = Field(ByteSize(64 * _MIB), validate_default=False, ge=0, le=_TIB)
    """Free space on the disk of the embedded store below which it takes no more data; 0: none."""
    memory_limit_bytes: ByteSize | None = Field(
        None,
        validate_default=False,
        ge=16 * _MIB,
        description="Memory of the embedded store above which it takes no more predictions, imports and models; unset: "
        "half of the machine's memory, or of the control group's limit.",
    )
    wait_replicas: int = Field(0, ge=0, le=16)
    """Replicas of the store that must confirm feedback before it is acknowledged."""
    workers: int = Field(1, ge=1, le=256)
    """Worker processes."""
    secrets_dir: Annotated[Path, AfterValidator(_check_folder)] | None = None
    """Directory of settings kept in files: one file for each, with the name of its variable."""
    store_timeout_seconds: float = Field(1.0, gt=0, le=60)
    """Maximum wait for one reply of the store."""
    max_body_bytes: ByteSize = Field(ByteSize(4 * _MIB), ge=_KIB, le=_GIB)
    """Maximum size of a request body."""
    max_import_bytes: ByteSize = Field(ByteSize(320 * _MIB), ge=_KIB, le=16 * _GIB)
    """Maximum size of a model's file to import."""
    max_batch_items: int = Field(1000, ge=1, le=100_000)
    """Maximum items in a batch request."""
    max_state_bytes: ByteSize = Field(ByteSize(256 * _MIB), ge=_KIB)
    """Maximum size of a new model's state."""
    cache_bytes: ByteSize = Field(ByteSize(512 * _MIB), ge=_MIB)
    """Maximum memory for cached models in each worker."""
    max_distribution_numbers: int = Field(1_000_000, ge=1)
    """Maximum number of probabilities in the response to one batch."""
    max_evidence_bytes: ByteSize = Field(ByteSize(64 * _KIB), ge=8)
    """Maximum learner data (evidence) that a new model stores with each prediction, in addition to the context."""
    max_open_bytes: ByteSize = Field(
        ByteSize(4 * _GIB),
        ge=0,
        description="Maximum size of the open predictions of a model in the store, until they have feedback or are no "
        "longer kept; 0: no maximum.",
    )
    max_step_cost: int = Field(1_000_000_000, ge=1_000_000)
    """Maximum multiply-adds of one decision or update of a new model; a core does about 10⁹ a second."""
    compute_threads: int = Field(2, ge=2, le=64)
    """Threads for long computations in each worker; one API key uses at most half of them."""
    max_requests_in_flight: int = Field(1000, ge=1, le=1_000_000)
    """Maximum concurrent requests in each worker."""
    body_timeout_seconds: float = Field(30.0, gt=0, le=3600)
    """Maximum time for a request body to arrive."""
    body_grace_seconds: float = Field(5.0, gt=0, le=3600)
    """Grace period before the minimum rate applies to a request body."""
    body_min_bytes_per_second: ByteSize = Field(ByteSize(1000), ge=0, le=_GIB)
    """Minimum average rate at which a client must send a body or read a response; 0: no minimum."""
    head_timeout_seconds: float = Field(10.0, gt=0, le=3600)
    """Maximum time for a request head to arrive; also the interval of checks for slow readers."""
    auth: Literal["auto", "required", "off"] = "auto"
    """Whether requests need an API key; auto: yes, unless the host is a loopback address."""
    key_cache_seconds: float = Field(5.0, ge=0, le=3600)
    """How long a worker caches an API key: the maximum delay of a revocation."""
    cors_origins: _Origins = ""
    """Origins whose pages may call the API from a browser, separated by commas; empty: none."""
    allowed_hosts: _HostNames = Field(
        "",
        description="Host names of the service, separated by commas; without keys, requests for other names are "
        "refused, except localhost and IP addresses.",
    )
    webhook_secrets: Annotated[SecretStr, AfterValidator(_check_webhook_secrets)] | None = None
    """Secrets of webhook signatures (whsec_...), separated by commas; shop-*=whsec_... signs for these models only."""
    webhook_members: _Members = ""
    """Members of webhooks with the fields of feedback, separated by commas, such as prediction_id=order.wager_id."""
    log_format: Literal["auto", "json", "console"] = "auto"
    """Format of the log; auto: console if standard error is a terminal, else json."""
    log_requests_per_second: int = Field(
        10,
        ge=0,
        le=1_000_000,
        description="Maximum log lines a second for successful requests, and as many for refused ones, in each worker; "
        "failures (500 and above) are always logged.",
    )
    metrics_models: _ModelNames = ""
    """Models in /metrics, separated by commas; empty: those with the most traffic, up to the maximum."""
    metrics_max_models: int = Field(100, ge=0, le=10_000)
    """Maximum models in /metrics."""
    graceful_shutdown_seconds: int = Field(5, ge=0, le=600)
    """Maximum wait for running requests at shutdown."""
    drain_seconds: float = Field(0.0, ge=0, le=600)
    """How long the service keeps serving after SIGTERM, with /readyz 503, so that balancers stop sending requests."""

    @field_validator("*", mode="before")
    @classmethod
    def _check_text(cls, value: object) -> object:
        if isinstance(value, _Fault):
            raise ValueError(str(value))
        if isinstance(value, str | Path) and re.search("[\0\ud800-\udfff]", str(value)):
            raise ValueError("must be UTF-8 text without null bytes")
        return value

    @field_validator("data_dir", mode="before")
    @classmethod
    def _check_data_dir(cls, path: object) -> object:
        if path == "":  # `Path("")` is the working directory
            raise ValueError("must not be empty")
        return path

    @field_validator("port", mode="before")
    @classmethod
    def _check_port(cls, port: object) -> object:
        if isinstance(port, str) and _LINK.match(port):
            raise ValueError(
                "must be a number; Kubernetes sets this one for a Service named wager: set enableServiceLinks: false "
                "for the pod, or name the Service otherwise"
            )
        return port

    @field_validator("store_ca_file", "store_cert_file", "store_key_file")
    @classmethod
    def _check_tls_file(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        url = info.data.get("store_url")
        if path is not None and "store_url" in info.data and not (url and parse_store_url(url).tls):
            raise ValueError("requires a store URL that begins with rediss")
        if path is not None and info.field_name != "store_key_file":
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
            except OSError:  # `ssl.SSLError` is an `OSError`
                raise ValueError("must be a readable file with certificates in PEM format") from None
        return path

    @field_validator("store_key_file")
    @classmethod
    def _check_key(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        if "store_cert_file" not in info.data:  # the certificate was refused
            return path
        if (certificate := info.data["store_cert_file"]) is None:
            if path is not None:
                raise ValueError("needs a certificate: set store_cert_file")
            return path
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, path, password="")
        except OSError:
            raise ValueError(
                "must be a readable file with the key of store_cert_file, in PEM format and not encrypted"
            ) from None
        return path

    @field_validator(*_OF_EMBEDDED)
    @classmethod
    def _check_embedded(cls, value: object, info: ValidationInfo) -> object:
        if info.data.get("store_url"):
            raise ValueError("concerns only the embedded store, which store_url replaces: unset one of them")
        return value

    @field_validator("wait_replicas")
    @classmethod
    def _check_replicas(cls, number: int, info: ValidationInfo) -> int:
        if not number or "store_url" not in info.data:  # not in it: the URL was refused
            return number
        if (url := info.data["store_url"]) is None:
            raise ValueError("must be 0 without store_url: the embedded store has no replicas")
        if parse_store_url(url).kind is Kind.CLUSTER:
            raise ValueError("does not work with the store URL of a cluster")
        return number

    @field_validator("drain_seconds")
    @classmethod
    def _check_drain(cls, seconds: float, info: ValidationInfo) -> float:
        if seconds and info.data.get("workers", 1) > 1:
            raise ValueError("must be 0 with several workers, which share one address; run several services instead")
        return seconds

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # unused: it hides that a setting is given twice
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,  # the directory is `secrets_dir`
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources by priority: arguments, environment variables, files of `secrets_dir`, names to refuse."""
        given = EnvSettingsSource(settings_cls, case_sensitive=True).env_vars  # without empty ones
        variables = {name: value for name, value in given.items() if value and _looks_ours(name)}
        by_variables = _by_setting(variables)
        files = _read_files((by_variables | init_settings()).get("secrets_dir"))
        unknown = {
            quoted(name): None for name, value in (variables | files).items() if not _is_known(_setting_of(name), value)
        }
        others = (by_variables, _by_setting(files), unknown)
        return init_settings, *(InitSettingsSource(settings_cls, dict(each)) for each in others)

    def as_environment(self) -> dict[str, str]:
        """Return the environment variables that pass these settings, without `secrets_dir`, whose files may change."""
        without = {"secrets_dir"} | (_OF_EMBEDDED if self.store_url else set())
        values = self.model_dump(exclude_none=True, exclude=without)
        return {
            _PREFIX + name.upper(): value.get_secret_value() if isinstance(value, SecretStr) else str(value)
            for name, value in values.items()
        }

    @property
    def keys_required(self) -> bool:
        """Whether requests need an API key. If `host` is unset, another program chose the address: it may be public."""
        private = "host" in self.model_fields_set and self.on_loopback
        return self.auth == "required" or (self.auth == "auto" and not private)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the service; every name except `localhost` counts as reachable."""
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return self.host == "localhost"

    def all_webhook_secrets(self) -> list[tuple[str, str]]:
        """Return (pattern of model names, secret) for each secret that may sign webhooks."""
        return [] if self.webhook_secrets is None else list(map(_of_models, _words(self.webhook_secrets)))

    @property
    def webhook_member_paths(self) -> dict[str, list[str]]:
        """The paths of members in a webhook's data, by the field of feedback that they contain."""
        return dict(map(_member_path, _split(self.webhook_members)))

    @property
    def cors_origin_list(self) -> list[str]:
        """The origins whose pages may call the API from a browser."""
        return _split(self.cors_origins)

    @property
    def allowed_host_list(self) -> list[str]:
        """The host names by which clients may reach a service without keys."""
        return _split(self.allowed_hosts)

    @property
    def metrics_model_names(self) -> list[str]:
        """The models in /metrics; empty for those with the most traffic."""
        return _split(self.metrics_models)

    @property
    def tls_files(self) -> TlsFiles:
        """The files for TLS connections to the store."""
        return TlsFiles(self.store_ca_file, self.store_cert_file, self.store_key_file)

    @property
    def masked_store_url(self) -> str | None:
        """The store's URL with asterisks in place of its password."""
        if self.store_url is None:
            return None
        base, query, _ = self.store_url.partition("?")  # the query may have a password too
        authority = urlsplit(base).netloc
        userinfo, at, address = authority.rpartition("@")
        user, colon, _ = userinfo.partition(":")
        shown = f"{user}{colon and ':***'}{at}{address}"
        return base.replace(authority, shown, 1) + (query and "?***")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, self.masked_store_url if name == "store_url" else value
