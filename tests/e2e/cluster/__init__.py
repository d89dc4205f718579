"""The Kubernetes cluster of the end-to-end tests: API server, JobSet, Kueue and fake GPU nodes.

It runs on this machine, in kind or as plain processes. Tests call ``cluster.connect()``.
"""
