"""The runtime that starts real processes on this machine: no container engine, no root, no image."""
