"""Read a run: its files on the workspace and its objects in the cluster; nothing is changed.

`workspace.py` turns the document of `launchers/state` about a run's files into dataclasses.
`cluster.py` fills one `Snapshot` with namespaced rights only; `view.py` is the pure reading of it.
`source.py` chooses how the workspace is read: a mounted path, exec into a pod, a reader pod, or not
at all. `local_copy.py` copies a run's small files through a pod.
"""
