"""`megatron-dpo doctor`: check before submission whether a cluster would run a release.

`gather.py` reads the cluster into one `Snapshot`; `api.py` is the only module that talks to it.
Each check is a pure function of the rendered `Release` and the `Snapshot`, in the module of its
subject; `command.py` lists them in the order of the report.
"""
