"""TLS: against a server built with it where one can be had, and always against one behind a TLS proxy."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from agentsmith.domain.errors import StoreUnavailable
from agentsmith.store import Pushed, Store
from tests.support.redis_server import RedisServer, free_port, server_binary
from tests.support.stores import TIMES, a_request


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cert.pem and key.pem, signed by itself, for the name localhost."""
    folder = tmp_path_factory.mktemp("tls")
    if shutil.which("openssl") is None:
        pytest.skip("TLS IS NOT TESTED: no openssl on PATH to make a certificate with")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=DNS:localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"),
        ],
        check=True,
        capture_output=True,
    )
    return folder


@asynccontextmanager
async def tls_server(certificate: Path) -> AsyncIterator[int]:
    """The TLS port of a server that speaks TLS itself."""
    port = free_port()
    options = (
        *("--tls-port", str(port), "--tls-cert-file", str(certificate / "cert.pem")),
        *("--tls-key-file", str(certificate / "key.pem"), "--tls-auth-clients", "no"),
        *("--tls-ca-cert-file", str(certificate / "cert.pem")),
    )
    named = (os.environ.get("AGENTSMITH_TEST_TLS_SERVER"), "valkey-server", "redis-server")
    found = [Path(path) for name in named if name and (path := shutil.which(name))]
    for binary in (*found, server_binary()):
        server = RedisServer(*options, binary=binary)
        try:
            server.start()
        except AssertionError:  # built without TLS: it ends at once, and says so
            server.close()
            continue
        try:
            yield port
        finally:
            server.close()
        return
    pytest.skip(
        "TLS IS TESTED ONLY BEHIND A PROXY: neither the shipped server nor one on PATH is built with TLS; "
        "install redis-server, or name one as AGENTSMITH_TEST_TLS_SERVER"
    )


@asynccontextmanager
async def tls_proxy(certificate: Path) -> AsyncIterator[int]:
    """The port of a proxy that ends TLS before a plain server, as many a managed Redis has it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    with RedisServer() as server:
        tasks: set[asyncio.Task[None]] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            inner_reader, inner_writer = await asyncio.open_unix_connection(server.socket)
            tasks.add(asyncio.create_task(pass_on(reader, inner_writer)))
            tasks.add(asyncio.create_task(pass_on(inner_reader, writer)))

        proxy = await asyncio.start_server(serve, "127.0.0.1", port := free_port(), ssl=context)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(proxy.wait_closed)
            stack.callback(proxy.close)
            yield port
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks)


@pytest.fixture(params=[tls_server, tls_proxy], ids=["server", "proxy"])
async def port(request: pytest.FixtureRequest, certificate: Path) -> AsyncIterator[int]:
    async with request.param(certificate) as number:
        yield number


async def test_a_trusted_certificate(port: int, certificate: Path) -> None:
    url = f"rediss://localhost:{port}?ssl_ca_certs={certificate / 'cert.pem'}"
    async with Store(url, times=TIMES) as store:
        assert await store.check()
        assert await store.queue.push(a_request(1)) is Pushed.PUSHED
        assert await store.queue.take("c1", wait=1) == a_request(1).to_json()


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("rediss://localhost:{port}", "CERTIFICATE_VERIFY_FAILED"),
        ("rediss://127.0.0.1:{port}?ssl_ca_certs={ca}", "CERTIFICATE_VERIFY_FAILED"),
        ("redis://localhost:{port}", "Redis cannot be"),
    ],
    ids=["an unknown certificate", "a certificate for another name", "no TLS on our side"],
)
async def test_a_server_that_cannot_be_trusted_is_refused(port: int, certificate: Path, address: str, why: str) -> None:
    async with Store(address.format(port=port, ca=certificate / "cert.pem"), times=TIMES) as store:
        with pytest.raises(StoreUnavailable, match=why):
            await store.check()
