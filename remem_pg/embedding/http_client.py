"""What everything that speaks HTTP here shares: the library, trust, proxies, waiting.

httpx is imported when a connection is first wanted, and no earlier.
"""

from __future__ import annotations

import logging
import os
import random
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from remem_pg.errors import EmbeddingUnavailable

HTTP_HINT = "pip install 'remem-pg[http]'"
RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes that another try may change."""
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


def httpx_library() -> Any:
    """httpx. Raises EmbeddingUnavailable when it is not installed."""
    try:
        import httpx
    except ImportError as error:
        raise EmbeddingUnavailable(f"this needs httpx: {error}", hint=HTTP_HINT) from error
    return httpx


def open_client(timeout: float, *, redirects: bool) -> Any:
    """An ``httpx.Client`` that honours HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY and the
    variables of ``trust``. ``timeout`` is for each connect, write and silence, in seconds."""
    return httpx_library().Client(
        timeout=timeout, follow_redirects=redirects, max_redirects=5, verify=trust(os.environ)
    )


def trust(environment: Mapping[str, str]) -> ssl.SSLContext:
    """Whom a TLS connection trusts.

    The bundle of SSL_CERT_FILE, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE (the first that is set) and
    the directory SSL_CERT_DIR stand in for the usual ones; without them the system's and certifi's
    are taken, because a slim image lacks the first and a company's own CA the second.
    NODE_EXTRA_CA_CERTS adds to either. Raises EmbeddingUnavailable for a bundle that cannot be
    read: it was named on purpose.
    """
    own = [(name, environment[name]) for name in _BUNDLES if environment.get(name)][:1]
    directory = environment.get("SSL_CERT_DIR")
    if own or directory:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if directory:
            context.load_verify_locations(capath=directory)
    else:
        context = ssl.create_default_context()
        import certifi

        context.load_verify_locations(certifi.where())
    if environment.get("NODE_EXTRA_CA_CERTS"):
        own.append(("NODE_EXTRA_CA_CERTS", environment["NODE_EXTRA_CA_CERTS"]))
    for name, place in own:
        try:
            if os.path.isdir(place):  # noqa: PTH112 - as it stands in the environment
                context.load_verify_locations(capath=place)
            else:
                context.load_verify_locations(place)
        except (OSError, ssl.SSLError) as error:
            raise EmbeddingUnavailable(
                f"the CA bundle of {name} cannot be read: {place}: {error}",
                detail={"variable": name, "file": place},
                hint=f"let {name} name a PEM file, or unset it",
            ) from error
    return context


def wait_seconds(attempt: int, retry_after: str | None, now: datetime | None = None) -> float:
    """How long to wait before try number ``attempt`` + 1 (from 1): what the server asks for in
    Retry-After (seconds or a date), else twice as long each time, 0.5 to 8 s, a little uneven so
    that many clients do not come back together."""
    asked = _asked(retry_after, now or datetime.now(UTC))
    if asked is not None:
        return asked
    return min(8.0, 0.5 * 2.0 ** (attempt - 1)) * random.uniform(0.75, 1.25)


def _asked(retry_after: str | None, now: datetime) -> float | None:
    if not retry_after:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - now).total_seconds())


def place_of(url: str) -> str:
    """Host and path of an address, without user, password and query: fit to be shown."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.hostname or ''}{port}{parts.path}"


class _WithoutSecrets(logging.Filter):
    """httpx logs every request with its whole address, and an address may hold a password or a
    key. Those of the hosts here are logged as ``place_of`` shows them."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            record.args = tuple(map(self._shown, record.args))
        return True

    def _shown(self, value: Any) -> Any:
        address = str(value) if type(value).__name__ == "URL" else ""
        return place_of(address) if urlsplit(address).hostname in self.hosts else value


_without_secrets = _WithoutSecrets()


def hide(url: str) -> None:
    """Keeps what is secret in addresses of this host out of httpx's log."""
    host = None
    with suppress(ValueError):  # no address: the request says so
        host = urlsplit(url).hostname
    if host:
        _without_secrets.hosts.add(host)
        logging.getLogger("httpx").addFilter(_without_secrets)  # adding it again changes nothing


def authorization(variable: str) -> dict[str, str]:
    """The header with the key of an environment variable; none without one.

    White space around it goes: files of secrets end in a newline. Raises EmbeddingUnavailable for
    what no header can hold, and does not quote it, as the HTTP library would.
    """
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and (key.isprintable() or not key)):
        raise EmbeddingUnavailable(
            f"{variable} holds characters that no key has",
            detail={"variable": variable},
            hint=f"set {variable} to the endpoint's key",
        )
    return {"Authorization": f"Bearer {key}"} if key else {}


def without_secrets(said: str, url: str, headers: Mapping[str, str]) -> str:
    """What an endpoint said, where it repeats the key or the password that it was sent."""
    parts = urlsplit(url)
    secrets = [value.removeprefix("Bearer ") for value in headers.values()]
    if parts.password:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password)}"
        secrets += [parts.password, unquote(parts.password), b64encode(pair.encode()).decode()]
    secrets += [value for _, value in parse_qsl(parts.query) if len(value) >= 8]
    for secret in sorted(secrets, key=len, reverse=True):
        said = said.replace(secret, "***")
    return said


def why_not(error: Exception) -> tuple[str, str]:
    """What kind of trouble an error of httpx is, in one word, and what to do about it."""
    httpx = httpx_library()
    if _certificate(error):
        return "tls", (
            "name the CA that signed it: SSL_CERT_FILE=/path/to/ca.pem (or REQUESTS_CA_BUNDLE)"
        )
    if isinstance(error, httpx.ProxyError):
        return "proxy", "look at HTTPS_PROXY and HTTP_PROXY; NO_PROXY names hosts to reach directly"
    if isinstance(error, httpx.TimeoutException):
        return (
            "timeout",
            "the other side is slow, or a firewall drops packets: behind a proxy set HTTPS_PROXY",
        )
    if isinstance(error, httpx.ConnectError):
        return "connect", "is it offline, or behind a proxy? Then set HTTPS_PROXY"
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError):
        return "broken", "the connection broke; try again"
    return "request", "look at the address"


def _certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def sleep_within(seconds: float, until: float) -> bool:
    """Waits, unless that would last beyond ``until`` (monotonic); False then."""
    if time.monotonic() + seconds >= until:
        return False
    time.sleep(seconds)
    return True
