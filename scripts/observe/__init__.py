"""Read a run: its files on the workspace and its objects in the cluster; nothing is changed.

`collect.py` is a program of its own that reads `runs/<release>/` where it is mounted, here or in a
pod; `workspace.py` turns its document into dataclasses. `cluster.py` fills one `Snapshot` with
namespaced rights only; `view.py` is the pure reading of it. `source.py` chooses how the workspace
is read: a mounted path, exec into a pod, a reader pod, or not at all. `pack.py` and `local_copy.py`
copy a run's small files through a pod.
"""
