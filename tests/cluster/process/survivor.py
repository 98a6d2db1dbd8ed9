"""A program whose pods outlive it, to be killed by test_process_survival.py: `survivor.py DIRECTORY NETWORK MARKER`."""

import asyncio
import json
import sys
from pathlib import Path

from process_rig import Rig

from jobset.cluster.runtime.process.runtime import ProcessRuntime

TICKING = "echo up; while :; do echo tick; sleep 0.05; done"
ENDING = "echo up; until [ -e /go/now ]; do sleep 0.02; done; echo late; echo why > /dev/termination-log; exit 7"


async def main(directory: Path, network: str, marker: str) -> None:
    directory.mkdir()
    (directory / "go").mkdir()
    runtime = ProcessRuntime(directory, network=network, survives=True)
    await runtime.start()
    rig = Rig(directory, runtime)
    script = {"ticking": TICKING, "ending": ENDING.replace("/go", str(directory / "go"))}
    addresses = {name: await rig.sandbox(name) for name in script}
    for name, text in script.items():
        await rig.start(name, "sh", "-c", text, env={marker: "1"})
        await rig.wait_output(name, "up")
    print(json.dumps(addresses), flush=True)
    await asyncio.sleep(300)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
