"""kubeconfig files: which entry wins, what the fields mean, and what is said about those that make no sense."""

import base64
from pathlib import Path

import pytest
import yaml

from jobset.client.kubeconfig import BadKubeconfig, Login, Pem, Plugin, context_names, in_cluster, load_target


def config(name: str = "dev", *, cluster: dict | None = None, user: dict | None = None, **more: object) -> dict:
    """One context with cluster and user of the same name."""
    return {
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}:6443", **(cluster or {})}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
        **more,
    }


def written(directory: Path, content: dict | str, name: str = "config") -> str:
    path = directory / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


def test_the_current_context_names_server_user_and_namespace(tmp_path: Path) -> None:
    content = config(user={"token": "t", "as": "boss", "as-groups": ["a", "b"], "as-user-extra": {"why": ["x"]}})
    content["contexts"][0]["context"]["namespace"] = "team"
    target = load_target({}, kubeconfig=written(tmp_path, content))
    assert (target.server, target.namespace, target.where) == ("https://dev:6443", "team", "context dev")
    assert target.login == Login(
        token="t",
        impersonation=(
            ("Impersonate-User", "boss"),
            ("Impersonate-Group", "a"),
            ("Impersonate-Group", "b"),
            ("Impersonate-Extra-why", "x"),
        ),
    )


def test_the_first_of_several_files_decides_each_entry(tmp_path: Path) -> None:
    first = written(tmp_path, {**config("one", user={"token": "first"}), "current-context": ""}, "first")
    second = config("two")
    second["users"].append({"name": "one", "user": {"token": "second", "username": "also"}})
    second["contexts"].append({"name": "mixed", "context": {"cluster": "two", "user": "one"}})
    environ = {"KUBECONFIG": f"{first}:{tmp_path}/absent:{written(tmp_path, second, 'second')}"}
    assert context_names(environ) == ["mixed", "one", "two"]
    assert load_target(environ).server == "https://two:6443"
    mixed = load_target(environ, context="mixed")
    assert (mixed.server, mixed.login) == ("https://two:6443", Login(token="first"))


def test_without_a_variable_it_is_the_file_at_home(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube", config("home"))
    assert load_target({"HOME": str(tmp_path)}).server == "https://home:6443"


def test_data_wins_over_files_and_files_lie_beside_their_kubeconfig(tmp_path: Path) -> None:
    encoded = base64.b64encode(b"PEM").decode()
    cluster = {"certificate-authority": "ca.crt", "tls-server-name": "inside"}
    user = {"client-certificate": "gone", "client-certificate-data": encoded, "client-key": "/k.pem", "tokenFile": "t"}
    target = load_target({}, kubeconfig=written(tmp_path, config(cluster=cluster, user=user)))
    assert (target.authority, target.server_name) == (Pem(file=tmp_path / "ca.crt"), "inside")
    login = target.login
    assert (login.certificate, login.key) == (Pem(b"PEM"), Pem(file=Path("/k.pem")))
    assert login.token_file == tmp_path / "t"


def test_a_plugin_is_found_beside_its_kubeconfig_or_in_the_path(tmp_path: Path) -> None:
    cluster = {
        "certificate-authority-data": "UEVN",
        "extensions": [{"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}],
    }
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "./login",
        "args": ["--cluster", "dev"],
        "env": [{"name": "A", "value": "b"}],
        "interactiveMode": "Never",
        "provideClusterInfo": True,
        "installHint": "get it",
    }
    target = load_target({}, kubeconfig=written(tmp_path, config(cluster=cluster, user={"exec": plugin})))
    assert target.login.plugin == Plugin(
        api_version="client.authentication.k8s.io/v1",
        command=str(tmp_path / "login"),
        arguments=("--cluster", "dev"),
        environment=(("A", "b"),),
        install_hint="get it",
        interactive="Never",
        cluster={"server": "https://dev:6443", "certificate-authority-data": "UEVN", "config": {"audience": "x"}},
    )
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws"}
    target = load_target({}, kubeconfig=written(tmp_path, config(user={"exec": plugin})))
    assert target.login.plugin == Plugin("client.authentication.k8s.io/v1beta1", "aws")


@pytest.mark.parametrize(
    ("cluster", "server"),
    [
        ({"server": "https://h:1/k8s/clusters/c-1/"}, "https://h:1/k8s/clusters/c-1"),
        ({"server": "h:6443", "insecure-skip-tls-verify": True}, "https://h:6443"),
        ({"server": "localhost:8080"}, "http://localhost:8080"),
        ({"server": "https://[::1]:6443"}, "https://[::1]:6443"),
    ],
)
def test_the_server(tmp_path: Path, cluster: dict, server: str) -> None:
    assert load_target({}, kubeconfig=written(tmp_path, config(cluster=cluster))).server == server


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a: [", "config is not readable as YAML"),
        ("just text", "config is not a kubeconfig"),
        ({}, "no cluster is chosen"),
        ({**config(), "current-context": "prod"}, r"context prod is not in .*config: there are dev"),
        ({**config(), "clusters": []}, "context dev: cluster names dev, which is in none of the files"),
        ({**config(), "clusters": {"a": 1}}, "clusters must be a list"),
        ({**config(), "users": [{"user": {}}]}, "users must be a list of entries with a name"),
        (config(cluster={"server": ""}), "cluster dev: server is missing"),
        (config(cluster={"server": "ftp://x"}), "cluster dev: server is ftp://x"),
        (config(cluster={"server": "https://x:port"}), "cluster dev: server is https://x:port"),
        (config(cluster={"certificate-authority-data": "%%%x"}), "certificate-authority-data is not base64"),
        (config(cluster={"insecure-skip-tls-verify": "yes please"}), "must be true or false"),
        (
            config(cluster={"insecure-skip-tls-verify": True, "certificate-authority": "x"}),
            "insecure-skip-tls-verify cannot stand beside",
        ),
        (config(cluster={"proxy-url": "socks5://h:1"}), "proxy-url is socks5://h:1: only http and https"),
        (config(user={"token": 12345}), "user dev: token must be text: put it in quotes"),
        (config(user={"client-certificate": "c"}), "user dev: client-key is missing"),
        (config(user={"auth-provider": {"name": "gcp"}}), "auth-provider is no longer supported"),
        (config(user={"exec": {"command": "x"}}), "exec: apiVersion is missing"),
        (
            config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}}),
            "exec: interactiveMode must be Never, IfAvailable or Always",
        ),
        (config(user={"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1"}}), "exec: command is missing"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, content: dict | str, problem: str) -> None:
    with pytest.raises(BadKubeconfig, match=problem):
        load_target({}, kubeconfig=written(tmp_path, content))


def test_a_file_that_was_asked_for_must_exist(tmp_path: Path) -> None:
    with pytest.raises(BadKubeconfig, match="absent does not exist"):
        load_target({}, kubeconfig=str(tmp_path / "absent"))
    with pytest.raises(BadKubeconfig, match=r"\.kube/config has no current-context"):
        load_target({"HOME": str(tmp_path)})


def test_a_pod_speaks_as_its_service_account(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443", "HOME": str(tmp_path)}
    with pytest.raises(BadKubeconfig, match="no pod with a service account"):
        in_cluster(environ, tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "namespace").write_text("team\n")
    target = in_cluster(environ, tmp_path)
    assert (target.server, target.namespace) == ("https://[fd00::1]:6443", "team")
    assert (target.authority, target.login) == (
        Pem(file=tmp_path / "ca.crt"),
        Login(token_file=tmp_path / "token"),
    )
