"""HTTPS_PROXY and NO_PROXY, as Go programs read them."""

import pytest

from jobset.client.proxies import proxy_of_environment

ENVIRON = {"HTTPS_PROXY": "http://proxy:3128", "http_proxy": "plain:80"}


@pytest.mark.parametrize(
    ("url", "excluded", "proxy"),
    [
        ("https://api.example.com", "", "http://proxy:3128"),
        ("http://api.example.com", "", "http://plain:80"),
        ("https://api.example.com", "other.com, example.com", ""),
        ("https://example.com", "example.com", ""),
        ("https://example.com", ".example.com", "http://proxy:3128"),
        ("https://api.example.com", ".example.com", ""),
        ("https://notexample.com", "example.com", "http://proxy:3128"),
        ("https://10.2.3.4:6443", "10.0.0.0/8", ""),
        ("https://11.2.3.4:6443", "10.0.0.0/8", "http://proxy:3128"),
        ("https://10.2.3.4:6443", "10.2.3.4:6443", ""),
        ("https://10.2.3.4:6443", "10.2.3.4:443", "http://proxy:3128"),
        ("https://[fd00::1]:6443", "fd00::/8", ""),
        ("https://api.example.com", "*", ""),
        ("https://localhost:6443", "", ""),
        ("https://127.0.0.1:6443", "", ""),
    ],
)
def test_the_proxy_for_an_address(url: str, excluded: str, proxy: str) -> None:
    assert proxy_of_environment(url, {**ENVIRON, "NO_PROXY": excluded}) == proxy
