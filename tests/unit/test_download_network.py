"""Proxies and certificates as the environment names them, over real sockets."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from remem_pg.embedding import http_client
from remem_pg.embedding.http import HttpEmbedding
from remem_pg.errors import EmbeddingUnavailable
from tests.support.models import bring, hub, no_network_variables
from tests.support.web import Files, Handler, Request, Web, proxy, serving


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_network_variables(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def ca(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A private certificate authority's file; `secure` serves with its certificate."""
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(str(path))
    return path


AUTHORITY = trustme.CA()


@pytest.fixture
def secure() -> Iterator[Web]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    with serving(Files(hub()), context) as web:
        yield web


@pytest.fixture
def forward() -> Iterator[Web]:
    with serving(proxy) as web:
        yield web


@pytest.mark.covers("RE25")
@pytest.mark.parametrize(
    "variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"]
)
def test_a_private_ca_is_trusted_where_a_variable_names_it(
    variable: str, secure: Web, ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(ca))
    assert bring(secure).checked == "pinned"


def test_an_unknown_ca_is_refused_at_once_and_the_hint_names_the_variable(secure: Web) -> None:
    with pytest.raises(EmbeddingUnavailable) as caught:
        bring(secure)
    assert caught.value.detail["reason"] == "tls"
    assert "SSL_CERT_FILE" in str(caught.value.hint)
    assert secure.requests == []


def test_an_endpoint_for_embeddings_is_trusted_by_the_same_variables(
    ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)

    def answer(handler: Handler, request: Request) -> None:
        handler.send_json(200, {"data": [{"index": 0, "embedding": [1, 0]}]})

    with serving(answer, context) as web:
        with pytest.raises(EmbeddingUnavailable) as caught:
            HttpEmbedding(web.url, dimensions=2).embed(["a"])
        assert caught.value.detail["reason"] == "tls"
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        assert HttpEmbedding(web.url, dimensions=2).embed(["a"]).tolist() == [[1, 0]]


def test_a_bundle_that_cannot_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for content in (None, b"no certificate"):
        path = tmp_path / "bundle.pem"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(EmbeddingUnavailable, match="REQUESTS_CA_BUNDLE") as caught:
            http_client.trust({"REQUESTS_CA_BUNDLE": str(path)})
        assert caught.value.detail["file"] == str(path)


def test_a_named_bundle_stands_in_for_the_usual_ones_and_an_extra_one_adds(ca: Path) -> None:
    usual = len(http_client.trust({}).get_ca_certs())
    assert usual > 10
    assert len(http_client.trust({"SSL_CERT_FILE": str(ca)}).get_ca_certs()) == 1
    assert len(http_client.trust({"NODE_EXTRA_CA_CERTS": str(ca)}).get_ca_certs()) == usual + 1


@pytest.mark.covers("RE25")
def test_a_proxy_is_used_for_http(forward: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Files(hub())) as web:
        monkeypatch.setenv("HTTP_PROXY", forward.url)
        assert bring(web).checked == "pinned"
        assert len(web.requests) == 2
        assert [r.path for r in forward.requests] == [web.url + r.path for r in web.requests]


@pytest.mark.covers("RE25")
def test_a_proxy_is_used_for_https_and_sees_no_content(
    forward: Web, secure: Web, ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", forward.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    assert bring(secure).checked == "pinned"
    port = secure.server_address[1]
    assert {(r.method, r.path) for r in forward.requests} == {("CONNECT", f"127.0.0.1:{port}")}


@pytest.mark.covers("RE25")
@pytest.mark.parametrize("hosts", ["127.0.0.1", "*", "example.org,127.0.0.1"])
def test_no_proxy_names_hosts_that_are_reached_directly(
    hosts: str, forward: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", forward.url)
    monkeypatch.setenv("NO_PROXY", hosts)
    with serving(Files(hub())) as web:
        assert bring(web).checked == "pinned"
    assert forward.requests == []


def test_a_proxy_that_refuses_is_named(
    secure: Web, ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handler: Handler, request: Request) -> None:
        handler.send(407, b"who are you", {"Proxy-Authenticate": "Basic"})

    with serving(refuse) as web:
        monkeypatch.setenv("HTTPS_PROXY", web.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        with pytest.raises(EmbeddingUnavailable) as caught:
            bring(secure)
    assert caught.value.detail["reason"] == "proxy"
    assert "HTTPS_PROXY" in str(caught.value.hint)


def test_a_redirect_away_from_tls_is_not_followed_to_its_end(
    ca: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("127.0.0.1").configure_cert(context)
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))

    def away(handler: Handler, request: Request) -> None:
        handler.send(302, b"", {"Location": plain.url + request.path})

    with (
        serving(Files(hub())) as plain,
        serving(away, context) as web,
        pytest.raises(EmbeddingUnavailable, match="without TLS"),
    ):
        bring(web)


def test_the_model_source_of_the_hub_is_reached_over_tls_only() -> None:
    from remem_pg.embedding import download

    assert download.HUB.startswith("https://")
