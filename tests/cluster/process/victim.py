"""A program with four pods, to be killed: test_process_endings.py starts it as `victim.py DIRECTORY NETWORK MARKER`."""

import asyncio
import json
import sys
from pathlib import Path

from process_rig import Rig

from jobset.cluster.runtime.process.runtime import ProcessRuntime


async def main(directory: Path, network: str, marker: str) -> None:
    directory.mkdir()
    runtime = ProcessRuntime(directory, network=network, owns_directory=True)
    await runtime.start()
    rig = Rig(directory, runtime)
    for number in range(4):
        await rig.sandbox(f"p{number}")
        await rig.start(f"p{number}", "sh", "-c", "(setsid sleep 300 &); trap '' TERM; sleep 300", env={marker: "1"})
    print(json.dumps({"running": 4}), flush=True)
    await asyncio.sleep(300)


asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
