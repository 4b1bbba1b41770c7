"""How a user's Prometheus server is asked: with the headers and the `http_config` of promtool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from weir_operator.errors import PermanentError
from weir_operator.metrics.prometheus_server import PrometheusServer

TIMEOUT = 60.0
"""Seconds that the server may take to answer: pages are hours long."""


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _BasicAuth(_Section):
    username: str = ""
    username_file: Path | None = None
    password: str = ""
    password_file: Path | None = None

    def read(self) -> tuple[str, str]:
        """Return the user and the password as they are now."""
        return (
            _either(self.username, self.username_file),
            _either(self.password, self.password_file),
        )


class _Authorization(_Section):
    type: str = "Bearer"
    credentials: str = ""
    credentials_file: Path | None = None


class _Tls(_Section):
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    insecure_skip_verify: bool = False


class _HttpHeader(_Section):
    values: tuple[str, ...] = ()


class HttpConfig(_Section):
    """The part of Prometheus' `http_config` that is understood."""

    basic_auth: _BasicAuth | None = None
    authorization: _Authorization | None = None
    bearer_token: str = ""
    bearer_token_file: Path | None = None
    tls_config: _Tls = _Tls()
    http_headers: Mapping[str, _HttpHeader] = {}
    follow_redirects: bool = True
    """Taken and ignored: a redirect is an error."""


def connect(
    url: str, headers: Mapping[str, str], http_config: Path | None = None
) -> PrometheusServer:
    """Return a connection, by the options of a command; whoever calls closes it.

    Raises:
        PermanentError: Two ways to log in are given, or a file cannot be read or understood.
    """
    config = _read_config(http_config)
    # Compressing a page of six hours takes Prometheus seven times as long as making it.
    headers = {"Accept-Encoding": "identity", **headers}
    headers |= {name: ",".join(each.values) for name, each in config.http_headers.items()}
    tokens: list[Callable[[], str]] = []
    if config.bearer_token or config.bearer_token_file is not None:
        tokens.append(partial(_either, config.bearer_token, config.bearer_token_file))
    given = config.authorization
    if given is not None and given.type.lower() == "bearer":
        tokens.append(partial(_either, given.credentials, given.credentials_file))
    elif given is not None:
        secret = _either(given.credentials, given.credentials_file)
        headers["Authorization"] = f"{given.type} {secret}"
    passwords = [config.basic_auth] if config.basic_auth is not None else []
    if len(tokens) + len(passwords) > 1:
        raise PermanentError(
            "--http.config.file: expected one of basic_auth, authorization and bearer_token, got "
            "several; remove the others"
        )
    for ask in (*tokens, *(each.read for each in passwords)):
        ask()  # a file that is not there is told before anything is asked
    tls = config.tls_config
    for name, file in (("ca", tls.ca_file), ("cert", tls.cert_file), ("key", tls.key_file)):
        if file is not None and not file.is_file():
            raise PermanentError(
                f"--http.config.file: tls_config.{name}_file: expected a file, got {file}; "
                "correct it"
            )
    return PrometheusServer(
        url,
        token=tokens[0] if tokens else None,
        password=passwords[0].read if passwords else None,
        headers=headers,
        verify=not tls.insecure_skip_verify and (tls.ca_file is None or str(tls.ca_file)),
        certificate=None
        if tls.cert_file is None or tls.key_file is None
        else (str(tls.cert_file), str(tls.key_file)),
        timeout=TIMEOUT,
    )


def _read_config(path: Path | None) -> HttpConfig:
    if path is None:
        return HttpConfig()
    try:
        return HttpConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except OSError as error:
        raise PermanentError(
            f"--http.config.file: expected a file, got {error.strerror}"
        ) from error
    except (ValidationError, yaml.YAMLError, UnicodeDecodeError) as error:
        what = error.errors()[0] if isinstance(error, ValidationError) else None
        where = ".".join(map(str, what["loc"])) if what else "the file"
        raise PermanentError(
            f"--http.config.file: expected an http_config as promtool takes it, got a mistake at "
            f"{where}{': ' + what['msg'] if what else ''}; correct it"
        ) from error


def _either(value: str, file: Path | None) -> str:
    """Return a secret that is written in a configuration, or in a file that it names."""
    if file is None:
        return value
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise PermanentError(
            f"Expected a secret for Prometheus in {file}, got {error.strerror}"
        ) from error
