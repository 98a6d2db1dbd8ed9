"""What happens to a pod and its containers on a node, through time. Pure; start reading at machine.py."""
