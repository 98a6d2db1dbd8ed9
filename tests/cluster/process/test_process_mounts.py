"""What a container sees of the file system."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from process_rig import mount, rig

from jobset.cluster.runtime.port import CannotStart

pytestmark = [
    pytest.mark.real_loop,
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's"),
]

SEEN = ["helloa:", "1a:", "1a:", "1read-only", "/etc/passwd", "/usr/bin/env", "usable"]


async def test_mounts_appear_where_the_host_has_nothing(place: Path, namespaces: None) -> None:
    async with rig(place) as r:
        data, one = r.volume("data", greeting="hello"), r.volume("one", settings="a: 1")
        mounts = (
            *mount(data, "/data"),
            *mount(one / "settings", "/etc/myapp/conf.d/settings.yaml"),
            *mount(one, "/data/inside", read_only=True),
            *mount(one, "/var/lib/nowhere/deep", read_only=True),
        )
        script = """
        cat /data/greeting /etc/myapp/conf.d/settings.yaml /data/inside/settings /var/lib/nowhere/deep/settings
        echo written > /data/back
        touch /var/lib/nowhere/deep/x 2>/dev/null || echo read-only
        ls /etc/passwd /usr/bin/env; test -r /proc/self/status && test -w /dev/null && test -d /sys/class && echo usable
        """
        printed = await r.shell("a", script, mounts=mounts)
        assert printed.split() == SEEN
        assert (data / "back").read_text() == "written\n"
        for path in ("/data", "/etc/myapp", "/var/lib/nowhere"):
            assert not Path(path).exists()


async def test_a_mount_may_cover_the_place_that_others_come_from(place: Path, namespaces: None) -> None:
    """An emptyDir at /tmp hides the pod directories below /tmp."""
    async with rig(place) as r:
        scratch, conf = r.volume("scratch"), r.volume("conf", a="b")
        covered = f"/{place.parts[1]}"
        mounts = (*mount(scratch, covered), *mount(conf, "/zz"))
        assert await r.shell("a", f"ls {covered}; cat /zz/a; echo", mounts=mounts) == "b\n"


async def test_read_only_mounts_cover_what_is_mounted_below(place: Path, namespaces: None) -> None:
    async with rig(place) as r:
        volume = r.volume("v", f="text")
        printed = await r.shell(
            "a",
            f"cat {place}/here/f; echo x > {place}/here/f || echo refused",
            mounts=mount(volume, f"{place}/here", True),
        )
        assert "refused" in printed
        assert (volume / "f").read_text() == "text"


async def test_bad_mounts_are_refused_with_the_path(place: Path, namespaces: None) -> None:
    async with rig(place) as r:
        await r.sandbox("a")
        volume = r.volume("v", f="text")
        for path, says in (
            ("data", "absolute"),
            ("/etc/passwd", "there is a file"),
            ("/etc/passwd/x", "not a directory"),
        ):
            with pytest.raises(CannotStart, match=says):
                await r.start("a", "true", mounts=mount(volume, path))
        with pytest.raises(CannotStart, match="/no/such/source"):
            await r.start("a", "true", mounts=mount(Path("/no/such/source"), "/data"))


async def test_shared_memory_is_the_pods(place: Path, namespaces: None) -> None:
    async with rig(place) as r:
        await r.sandbox("a")
        await r.wait_exit(await r.start("a", "sh", "-c", "echo x > /dev/shm/jobset-test", name="one"))
        await r.wait_exit(await r.start("a", "cat", "/dev/shm/jobset-test", name="two"))
        assert r.output("a", "two") == "x\n"
        assert (await r.run("b", "test", "-e", "/dev/shm/jobset-test")).exit_code == 1
        assert not Path("/dev/shm/jobset-test").exists()


async def test_without_namespaces_a_mount_must_be_where_it_is(place: Path, no_namespaces: None) -> None:
    async with rig(place, "auto") as r:
        assert "mount namespaces do not work here" in r.runtime.network.sentence
        await r.sandbox("a")
        volume = r.volume("v", f="text")
        with pytest.raises(CannotStart, match="at /data: mount namespaces do not work here"):
            await r.start("a", "true", mounts=mount(volume, "/data"))
        await r.wait_exit(await r.start("a", "cat", f"{volume}/f", mounts=mount(volume, str(volume))))
        assert r.output("a") == "text\n"


async def test_without_namespaces_names_are_in_a_file(place: Path, no_namespaces: None) -> None:
    async with rig(place) as r:
        await r.runtime.set_names("default", {"b.js": ["127.1.1.1"]})
        assert "127.1.1.1\tb.js.default.svc.cluster.local b.js" in await r.shell("a", "cat $JOBSET_HOSTS_FILE")
