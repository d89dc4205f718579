"""`megatron-dpo bundle`: one archive of a run for a bug report, without secrets, rows or weights.

`selection` decides which files of a run go in, `logs` shortens logs and removes rows, `objects`
cleans Kubernetes objects and values, `command` writes the archive.
"""
