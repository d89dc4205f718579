"""`megatron-dpo doctor`: whether a cluster would run a release, asked before it is submitted.

`gather.py` asks the API server all that the checks need (`api.py` is the only edge), into one
`Seen`. Each check is a pure function of the rendered `Release` and of `Seen`, in a file of its
subject; `examine.py` is their list.
"""
