"""Who we say we are: tokens in files that change, plugins and how long their answers hold, what goes wrong."""

import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from jobset.api.errors import Unauthorized
from jobset.client.credentials import Credentials
from jobset.client.kubeconfig import Login, Pem, Plugin

V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"


class Clock:
    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def pass_(self, **time: float) -> None:
        self.moment += timedelta(**time)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def plugin_at(path: Path, status: str, *, version: str = V1, **more: object) -> Plugin:
    """A program that counts its calls, notes what it was told, and prints `status` (Python text; `n` is the count)."""
    path.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        f"calls = {str(path) + '.calls'!r}\n"
        "open(calls, 'a').write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n')\n"
        "n = len(open(calls).readlines())\n"
        f"print(json.dumps({{'apiVersion': {version!r}, 'kind': 'ExecCredential', 'status': {status}}}))\n"
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return Plugin(version, str(path), interactive="Never", **more)  # type: ignore[arg-type]


def told(path: Path) -> list[dict]:
    return [json.loads(line) for line in Path(f"{path}.calls").read_text().splitlines()]


def test_fields_become_headers(clock: Clock) -> None:
    def headers(login: Login) -> dict:
        return dict(Credentials(login, now=clock).current().headers)

    assert headers(Login()) == {}
    assert headers(Login(token="t", username="u")) == {"Authorization": "Bearer t"}
    assert headers(Login(username="u", password="p")) == {"Authorization": "Basic dTpw"}
    impersonated = Login(token="t", impersonation=(("Impersonate-User", "x"),))
    assert headers(impersonated) == {"Impersonate-User": "x", "Authorization": "Bearer t"}


def test_a_token_file_is_read_again_after_a_minute_or_when_its_token_is_refused(tmp_path: Path, clock: Clock) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    credentials = Credentials(Login(token="never", token_file=file), now=clock)
    first = credentials.current()
    assert dict(first.headers) == {"Authorization": "Bearer one"}
    file.write_text("two")
    clock.pass_(seconds=59)
    assert credentials.current() is first
    clock.pass_(seconds=1)
    second = credentials.current()
    assert dict(second.headers) == {"Authorization": "Bearer two"}
    file.write_text("three")
    credentials.forget(first)
    assert credentials.current() is second
    credentials.forget(second)
    assert dict(credentials.current().headers) == {"Authorization": "Bearer three"}


def test_a_token_file_that_is_missing_is_named(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(Unauthorized, match=r"cannot be read from .*/token: No such file"):
        Credentials(Login(token_file=tmp_path / "token"), now=clock).current()


def test_certificate_files_are_read_again(tmp_path: Path, clock: Clock) -> None:
    certificate, key = tmp_path / "c", tmp_path / "k"
    certificate.write_text("c1")
    key.write_text("k1")
    credentials = Credentials(Login(certificate=Pem(file=certificate), key=Pem(file=key)), now=clock)
    assert (credentials.current().certificate, credentials.current().key) == (b"c1", b"k1")
    certificate.write_text("c2")
    clock.pass_(minutes=1)
    assert credentials.current().certificate == b"c2"


@pytest.mark.parametrize("version", [V1, V1BETA1])
def test_a_plugin_is_asked_once_until_its_answer_expires(tmp_path: Path, clock: Clock, version: str) -> None:
    status = "{'token': f'token-{n}', 'expirationTimestamp': '2026-01-01T01:00:00Z' if n == 1 else None}"
    plugin = plugin_at(tmp_path / "login", status, version=version, cluster={"server": "https://x"})
    credentials = Credentials(Login(plugin=plugin), now=clock)
    assert not credentials.is_fresh
    for minutes in (0, 20, 39):
        clock.pass_(minutes=minutes)
        assert dict(credentials.current().headers) == {"Authorization": "Bearer token-1"}
        assert credentials.is_fresh
    assert told(tmp_path / "login") == [
        {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False, "cluster": {"server": "https://x"}}}
    ]  # fmt: skip
    clock.pass_(minutes=1)
    assert dict(credentials.current().headers) == {"Authorization": "Bearer token-2"}
    clock.pass_(days=1000)
    assert credentials.current().headers == (("Authorization", "Bearer token-2"),)
    credentials.forget(credentials.current())
    assert credentials.current().headers == (("Authorization", "Bearer token-3"),)


def test_a_plugin_may_give_a_certificate(tmp_path: Path, clock: Clock) -> None:
    plugin = plugin_at(tmp_path / "login", "{'clientCertificateData': 'C', 'clientKeyData': 'K'}")
    identity = Credentials(Login(plugin=plugin), now=clock).current()
    assert (identity.headers, identity.certificate, identity.key) == ((), b"C", b"K")


def test_a_plugin_gets_the_environment_and_what_the_kubeconfig_adds(tmp_path: Path, clock: Clock) -> None:
    plugin = plugin_at(
        tmp_path / "login", "{'token': os.environ['A'] + os.environ['B']}", environment=(("B", "added"),)
    )
    environ = {**os.environ, "A": "given-", "B": "old"}
    assert Credentials(Login(plugin=plugin), now=clock, environ=environ).current().headers == (
        ("Authorization", "Bearer given-added"),
    )


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ("None", "gave neither a token nor a certificate"),
        ("{'clientCertificateData': 'C'}", "gave a certificate without its key"),
        ("{'token': 't', 'expirationTimestamp': 'soon'}", "gave an expirationTimestamp that is no time: soon"),
        ("sys.exit(3)", "failed with exit code 3"),
        ("print('hello') or {'token': 't'}", "did not print JSON"),
    ],
)
def test_what_a_plugin_does_wrong_is_said(tmp_path: Path, clock: Clock, status: str, problem: str) -> None:
    plugin = plugin_at(tmp_path / "login", status)
    with pytest.raises(Unauthorized, match=f"the credential plugin .*/login {problem}"):
        Credentials(Login(plugin=plugin), now=clock).current()


def test_a_plugin_that_answers_in_another_version_is_refused(tmp_path: Path, clock: Clock) -> None:
    plugin_at(tmp_path / "login", "{'token': 't'}", version=V1BETA1)
    plugin = Plugin(V1, str(tmp_path / "login"), interactive="Never")
    with pytest.raises(Unauthorized, match=f"answered in {V1BETA1}, not in {V1}"):
        Credentials(Login(plugin=plugin), now=clock).current()


def test_a_plugin_that_is_not_installed_comes_with_its_hint(clock: Clock) -> None:
    plugin = Plugin(V1, "no-such-login", install_hint="Get it at example.com.")
    with pytest.raises(Unauthorized, match=r"(?s)no-such-login is not installed.*Get it at example.com\."):
        Credentials(Login(plugin=plugin), now=clock).current()
    always = Plugin(V1, "true", interactive="Always")
    with pytest.raises(Unauthorized, match="needs a terminal"):
        Credentials(Login(plugin=always), now=clock).current()
