"""Keys on disk: private from the first byte on, kept, and not used once others could have read them."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime

import pytest

from jobset.local.credentials import (
    NotPrivate,
    prepare_credentials,
    prepare_server_certificate,
    private_directory,
    write_private,
)

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def place(tmp_path):
    old = os.umask(0)
    private_directory(tmp_path / "state" / "c")
    yield tmp_path / "state" / "c"
    os.umask(old)


def test_everything_is_the_owners_alone_whatever_the_umask(place):
    prepare_server_certificate(prepare_credentials(place, NOW), ["localhost"], NOW)
    assert mode(place) == 0o700
    assert {path.name: oct(mode(path)) for path in place.iterdir() if mode(path) != 0o600} == {}
    assert sorted(path.name for path in place.iterdir()) == [
        "admin.crt", "admin.key", "admin.token", "ca.crt", "ca.key", "server.crt", "server.key", "service-accounts.key",
    ]  # fmt: skip


def test_keys_are_kept(place):
    assert prepare_credentials(place, NOW) == prepare_credentials(place, NOW)


def test_an_open_directory_is_closed(place):
    place.chmod(0o755)
    private_directory(place)
    assert mode(place) == 0o700


@pytest.mark.parametrize("name", ["ca.key", "admin.key", "admin.token", "service-accounts.key"])
def test_a_key_that_others_can_read_is_not_used(place, name):
    prepare_credentials(place, NOW)
    (place / name).chmod(0o640)
    with pytest.raises(NotPrivate, match=name):
        prepare_credentials(place, NOW)


def test_a_directory_of_another_user_is_not_used(place, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(NotPrivate, match="belongs to another user"):
        private_directory(place)


def test_writing_replaces_the_file_whole_or_leaves_it(place, monkeypatch):
    path = place / "f"
    write_private(path, "old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_private(path, "new")
    assert path.read_text() == "old"
    assert [each.name for each in place.iterdir()] == ["f"]
