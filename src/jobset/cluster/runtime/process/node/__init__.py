"""The node process: everything that touches processes, namespaces and mounts.

It runs apart from the program that asks for pods (`python -S -I -E`, standard library only, nothing of the package but
this directory), because a big process with an event loop must not fork. It starts one *supervisor* a container by a
cheap fork; the supervisor owns the container's processes and its log, the node process owns addresses and namespaces.

It imports little (no dataclasses, pathlib, shutil or logging at start): a program waits for it, and what it holds is
what every fork has to copy.
"""
