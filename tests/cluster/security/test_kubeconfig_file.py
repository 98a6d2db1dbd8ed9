"""Merging a cluster's context into the user's kubeconfig, where everything else must stay as it was."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml

from jobset.local import kubeconfig_file
from jobset.local.kubeconfig_file import BadKubeconfig, as_yaml, merge_into, merged, parse, remove_from, user_file

ADDED = {
    "clusters": [{"name": "jobset-local", "cluster": {"server": "https://127.0.0.1:6443"}}],
    "users": [{"name": "jobset-local", "user": {"client-key-data": "Zm9v"}}],
    "contexts": [{"name": "jobset-local", "context": {"cluster": "jobset-local", "user": "jobset-local"}}],
    "current-context": "jobset-local",
}
OTHERS = """\
apiVersion: v1
kind: Config
current-context: work
preferences: {colors: true}
clusters:
- name: work
  cluster: {server: "https://k8s.example.com", insecure-skip-tls-verify: true}
users:
- name: work
  user: {token: "0123", username: "yes", password: "1e3"}
contexts:
- name: work
  context: {cluster: work, user: work, namespace: "007"}
extensions: [{name: x, extension: {"0x10": "~"}}]
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".kube" / "config"


def names(config, section):
    return [entry["name"] for entry in config[section]]


def test_everything_else_stays(path):
    path.parent.mkdir()
    path.write_text(OTHERS)
    merge_into(path, ADDED, set_current=True)
    result, before = parse(path.read_text()), parse(OTHERS)
    assert names(result, "clusters") == ["work", "jobset-local"]
    assert result["current-context"] == "jobset-local"
    for key in ("clusters", "users", "contexts"):
        assert result[key][0] == before[key][0]
    for key in ("preferences", "extensions"):
        assert result[key] == before[key]
    remove_from(path, "local")
    assert parse(path.read_text()) == {**before, "current-context": ""}


def test_merging_again_replaces_and_leaves_the_current_context_if_told():
    once = merged(parse(OTHERS), ADDED, set_current=False)
    newer = {**ADDED, "clusters": [{"name": "jobset-local", "cluster": {"server": "https://127.0.0.1:7000"}}]}
    twice = merged(once, newer, set_current=False)
    assert twice["current-context"] == "work"
    assert names(twice, "clusters") == ["work", "jobset-local"]
    assert twice["clusters"][1]["cluster"]["server"].endswith(":7000")


def test_a_new_file_is_private(path):
    merge_into(path, ADDED, set_current=False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert parse(path.read_text())["current-context"] == "jobset-local"
    assert [each.name for each in path.parent.iterdir()] == ["config"]


def test_a_link_stays_a_link(path, tmp_path):
    path.parent.mkdir()
    (tmp_path / "real").write_text(OTHERS)
    path.symlink_to(tmp_path / "real")
    merge_into(path, ADDED, set_current=True)
    assert path.is_symlink()
    assert names(parse((tmp_path / "real").read_text()), "users") == ["work", "jobset-local"]


@pytest.mark.parametrize("text", ["a: [", "- 1\n- 2\n", "clusters: {a: b}\n", "just text\n"])
def test_what_is_no_kubeconfig_is_left_alone(path, text):
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(BadKubeconfig, match=str(path)):
        merge_into(path, ADDED, set_current=True)
    assert path.read_text() == text


def test_a_file_that_another_program_writes_is_left_alone(path):
    path.parent.mkdir()
    path.write_text(OTHERS)
    path.with_name("config.lock").touch()
    with pytest.raises(BadKubeconfig, match=r"config\.lock"):
        merge_into(path, ADDED, set_current=True)
    assert path.read_text() == OTHERS


def test_text_stays_text_for_every_reader():
    values = [
        "yes",
        "0x1F",
        "1e3",
        "012",
        "null",
        "~",
        "",
        "2024-01-01",
        "1:30",
        "+1",
        ".5",
        "a: b",
        "é\n",
        "- x",
        "1e999",
    ]
    written = as_yaml({"values": values})
    assert parse(written)["values"] == values
    assert yaml.safe_load(written)["values"] == values


def test_which_file_is_the_users(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert user_file({}) == tmp_path / ".kube" / "config"
    assert user_file({"KUBECONFIG": ":/a/b:/c"}) == Path("/a/b")
    assert kubeconfig_file.context_name("local") == "jobset-local"
