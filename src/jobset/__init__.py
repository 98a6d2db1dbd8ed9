"""JobSet for Python: distributed jobs on one machine or on a Kubernetes cluster, from the same manifest."""

__version__ = "0.1.0"
