"""How a user's Prometheus server is asked: token, password, headers, certificates.

--header, --token-file, --basic-auth, --ca-file    one by one
--http-config FILE                                 all of it, as `promtool --http.config.file`
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """Options of a command."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    token_file: Path | None = None
    basic_auth: Path | None = None
    """Folder with the files `username` and `password`."""
    ca_file: Path | None = None
    http_config: Path | None = None


def connect(access: Access) -> PrometheusServer:
    """Return a connection; whoever calls closes it.

    Raises:
        PermanentError: Two ways to log in are given, or a file cannot be read or understood.
    """
    config = _read_config(access.http_config)
    # Compressing a page of six hours takes Prometheus seven times as long as making it.
    headers = {"Accept-Encoding": "identity", **access.headers}
    headers |= {name: ",".join(each.values) for name, each in config.http_headers.items()}
    tokens: list[Callable[[], str]] = []
    passwords: list[Callable[[], tuple[str, str]]] = []
    tokens += [
        partial(read_secret, file)
        for file in (access.token_file, config.bearer_token_file)
        if file is not None
    ]
    if config.bearer_token:
        tokens.append(lambda: config.bearer_token)
    if config.authorization is not None:
        authorization = config.authorization
        if authorization.type.lower() != "bearer":
            headers["Authorization"] = f"{authorization.type} " + _either(
                authorization.credentials, authorization.credentials_file
            )
        else:
            tokens.append(
                lambda: _either(authorization.credentials, authorization.credentials_file)
            )
    if access.basic_auth is not None:
        folder = access.basic_auth
        passwords.append(
            lambda: (read_secret(folder / "username"), read_secret(folder / "password"))
        )
    if config.basic_auth is not None:
        basic = config.basic_auth
        passwords.append(
            lambda: (
                _either(basic.username, basic.username_file),
                _either(basic.password, basic.password_file),
            )
        )
    if len(tokens) + len(passwords) > 1:
        raise PermanentError(
            "--token-file: expected one way to log in, of --token-file, --basic-auth and "
            "--http-config, got several; remove the others"
        )
    for ask in (*tokens, *passwords):
        ask()  # a file that is not there is told before anything is asked
    tls = config.tls_config
    ca = access.ca_file or tls.ca_file
    if ca is not None and not ca.is_file():
        raise PermanentError(f"--ca-file: expected a file of certificates, got no file {ca}")
    return PrometheusServer(
        access.url,
        token=tokens[0] if tokens else None,
        password=passwords[0] if passwords else None,
        headers=headers,
        verify=False if tls.insecure_skip_verify else True if ca is None else str(ca),
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
        raise PermanentError(f"--http-config: expected a file, got {error.strerror}") from error
    except (ValidationError, yaml.YAMLError, UnicodeDecodeError) as error:
        what = error.errors()[0] if isinstance(error, ValidationError) else None
        where = ".".join(map(str, what["loc"])) if what else "the file"
        raise PermanentError(
            f"--http-config: expected an http_config as promtool takes it, got a mistake at "
            f"{where}{': ' + what['msg'] if what else ''}; correct it"
        ) from error


def _either(value: str, file: Path | None) -> str:
    return value if file is None else read_secret(file)


def read_secret(file: Path) -> str:
    """Return what a file with a secret has.

    Raises:
        PermanentError: It cannot be read.
    """
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise PermanentError(
            f"Expected a secret for Prometheus in {file}, got {error.strerror}"
        ) from error
