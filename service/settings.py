"""What can be set, with its default and its range: one field, one environment variable."""

import base64
import ipaddress
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    ByteSize,
    DirectoryPath,
    Field,
    FilePath,
    SecretStr,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SecretsSettingsSource, SettingsConfigDict

from service.store.connections.addresses import Kind, TlsFiles, parse_store_url
from service.wording.patterns import NAME

_PREFIX = "WAGER_"
_KIB, _MIB, _GIB = 2**10, 2**20, 2**30


def _check_store_url(url: str) -> str:
    parse_store_url(url)
    return url


def _check_webhook_secrets(secrets: SecretStr) -> SecretStr:
    if not (words := _words(secrets)):
        raise ValueError("must hold a secret: whsec_ and the base64 of 24 to 64 bytes; several are separated by commas")
    for number, word in enumerate(words, 1):
        if not _is_webhook_secret(word):
            raise ValueError(f"secret number {number} is not whsec_ and the base64 of 24 to 64 bytes")
    return secrets


def _words(secrets: SecretStr) -> list[str]:
    return secrets.get_secret_value().replace(",", " ").split()


def _check_names(names: str) -> str:
    if any(not re.fullmatch(NAME, name) for name in _split(names)):
        raise ValueError("must be names of models, separated by commas")
    return names


def _split(names: str) -> list[str]:
    return [name.strip() for name in names.split(",") if name.strip()]


def _is_webhook_secret(word: str) -> bool:
    try:
        return word.startswith("whsec_") and 24 <= len(base64.b64decode(word[6:], validate=True)) <= 64
    except ValueError:
        return False


def _plain(value: object) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else str(value)


class Settings(BaseSettings):
    """The settings of one service; the same in all of its workers.

    Each is read from the environment (``WAGER_PORT``, ...) when an instance is
    made, unless it is passed as an argument. An empty variable counts as unset;
    one that is unset is looked for in the folder `secrets_dir`, if that is given,
    as a file of the variable's name (``WAGER_STORE_URL``, in any case).
    Sizes are in bytes and may be written with a unit (``64MiB``).

    Raises:
        pydantic.ValidationError: From the constructor, naming every wrong
            value. It does not repeat the values, which may be secret.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    secrets_dir: DirectoryPath | None = Field(
        None, description="Folder of secret settings, one file each, named like its variable."
    )
    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(8000, ge=1, le=65535, description="TCP port to listen on.")
    data_dir: Path = Field(Path("wager-data"), description="Folder of the embedded store's data and log.")
    store_url: Annotated[str, AfterValidator(_check_store_url)] | None = Field(
        None, description="Redis or Valkey to use instead of the embedded store."
    )
    store_ca_file: FilePath | None = Field(
        None, description="Authorities (PEM) that sign the store's certificate; else the system's."
    )
    store_cert_file: FilePath | None = Field(None, description="Certificate (PEM) to show to the store.")
    store_key_file: FilePath | None = Field(None, description="Key (PEM) of the certificate, if not in the same file.")
    appendfsync: Literal["always", "everysec"] = Field(
        "everysec",
        description="When the embedded store calls fsync: at every write or each second.",
    )
    wait_replicas: int = Field(
        0, ge=0, le=16, description="Replicas of the store that must have a feedback before it is acknowledged."
    )
    workers: int = Field(1, ge=1, le=256, description="Number of worker processes.")
    store_timeout_seconds: float = Field(1.0, gt=0, le=60, description="Longest wait for one answer of the store.")
    max_body_bytes: ByteSize = Field(ByteSize(4 * _MIB), ge=_KIB, le=_GIB, description="Largest request body.")
    max_batch_items: int = Field(1000, ge=1, le=100_000, description="Most items in one batch request.")
    max_state_bytes: ByteSize = Field(ByteSize(256 * _MIB), ge=_KIB, description="Largest state a model may have.")
    cache_bytes: ByteSize = Field(
        ByteSize(512 * _MIB), ge=_MIB, description="Most memory a worker gives to cached models."
    )
    max_distribution_numbers: int = Field(
        1_000_000, ge=1, description="Most probabilities that the answer to one batch may list."
    )
    max_evidence_bytes: ByteSize = Field(
        ByteSize(64 * _KIB), ge=8, description="Most that a new model may keep of each prediction beside its context."
    )
    max_step_cost: int = Field(
        1_000_000_000,
        ge=1_000_000,
        description="Most multiply-adds, about a billion a second, of one decision or update of a new model.",
    )
    compute_threads: int = Field(2, ge=2, le=64, description="Threads of a worker for long computations.")
    max_requests_in_flight: int = Field(1000, ge=1, le=1_000_000, description="Most requests at once in a worker.")
    body_timeout_seconds: float = Field(30.0, gt=0, le=3600, description="Longest time that a body may take to arrive.")
    body_grace_seconds: float = Field(
        5.0, gt=0, le=3600, description="How long a body may take before `body_min_bytes_per_second` counts."
    )
    body_min_bytes_per_second: ByteSize = Field(
        ByteSize(1000), ge=0, le=_GIB, description="Slowest average rate at which a body may arrive; 0 for any."
    )
    head_timeout_seconds: float = Field(
        10.0, gt=0, le=3600, description="Longest time that the head of a request, or a reader of answers, may idle."
    )
    auth: Literal["auto", "required", "off"] = Field(
        "auto", description="Whether requests need an API key: unless `host` is set to loopback, always, or never."
    )
    key_cache_seconds: float = Field(
        5.0, ge=0, le=3600, description="How long a worker trusts an API key without asking: the delay of a revocation."
    )
    webhook_secrets: Annotated[SecretStr, AfterValidator(_check_webhook_secrets)] | None = Field(
        None, description="Secrets that webhooks are signed with (whsec_...), separated by commas."
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="Logs as JSON lines or for a person; auto: for a person where stderr is a terminal."
    )
    log_requests_per_second: int = Field(
        10, ge=0, le=1_000_000, description="Most lines a worker logs of requests in a second; failures always are."
    )
    metrics_models: Annotated[str, AfterValidator(_check_names)] = Field(
        "", description="Models that /metrics tells of, separated by commas; if empty, the first ones by name."
    )
    metrics_max_models: int = Field(100, ge=0, le=10_000, description="Most models that /metrics tells of.")
    graceful_shutdown_seconds: int = Field(
        5, ge=0, le=600, description="Longest wait for running requests when the service stops."
    )
    drain_seconds: float = Field(
        0.0,
        ge=0,
        le=600,
        description="How long the service goes on serving, not ready, before it stops: for a balancer to turn away.",
    )

    @field_validator("store_ca_file", "store_cert_file", "store_key_file")
    @classmethod
    def _check_tls_file(cls, path: Path | None, info: ValidationInfo) -> Path | None:
        url = info.data.get("store_url")
        if path is not None and not (url and parse_store_url(url).tls):
            raise ValueError("is of use with a store URL that begins with rediss only")
        if path is not None and info.field_name == "store_key_file" and info.data.get("store_cert_file") is None:
            raise ValueError("needs a certificate: set store_cert_file too")
        return path

    @field_validator("wait_replicas")
    @classmethod
    def _check_replicas(cls, number: int, info: ValidationInfo) -> int:
        url = info.data.get("store_url")
        if number and (not url or parse_store_url(url).kind is Kind.CLUSTER):
            raise ValueError("is of use with the URL of a store that has replicas and is no cluster only")
        return number

    @field_validator("drain_seconds")
    @classmethod
    def _check_drain(cls, seconds: float, info: ValidationInfo) -> float:
        if seconds and info.data.get("workers", 1) > 1:
            raise ValueError("must be 0 with several workers, which share one address: run more services instead")
        return seconds

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the base's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - does not know the folder
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments come before the environment, and that before the files of the secrets' folder."""
        folder = (env_settings() | init_settings()).get("secrets_dir")
        if folder is None or not Path(folder).is_dir():  # which is then refused by name
            return init_settings, env_settings
        return init_settings, env_settings, SecretsSettingsSource(settings_cls, folder)

    def as_environment(self) -> dict[str, str]:
        """Return the environment variables from which a worker reads these same settings."""
        values = self.model_dump(exclude_none=True)
        return {_PREFIX + name.upper(): _plain(value) for name, value in values.items()}

    @property
    def keys_required(self) -> bool:
        """Whether requests need an API key; where nobody has set the host, any address may be listened on."""
        private = "host" in self.model_fields_set and self.on_loopback
        return self.auth == "required" or (self.auth == "auto" and not private)

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine can reach the service; a name but `localhost` counts as reachable."""
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return self.host == "localhost"

    def all_webhook_secrets(self) -> list[str]:
        """Every secret that a webhook may be signed with."""
        return [] if self.webhook_secrets is None else _words(self.webhook_secrets)

    @property
    def metrics_model_names(self) -> list[str]:
        """The models that /metrics tells of; none where it is to choose."""
        return _split(self.metrics_models)

    @property
    def tls_files(self) -> TlsFiles:
        """The files for TLS with the store."""
        return TlsFiles(self.store_ca_file, self.store_cert_file, self.store_key_file)

    @property
    def masked_store_url(self) -> str | None:
        """The store's URL, fit to be shown: with asterisks where its password was."""
        if self.store_url is None:
            return None
        base, query, _ = self.store_url.partition("?")  # a password may stand in the query too
        authority = urlsplit(base).netloc
        userinfo, at, address = authority.rpartition("@")
        user, colon, _ = userinfo.partition(":")
        shown = f"{user}{colon and ':***'}{at}{address}"
        return base.replace(authority, shown, 1) + (query and "?***")

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, self.masked_store_url if name == "store_url" else value
