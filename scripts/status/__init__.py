"""`megatron-dpo status` and `list`: how far a run is, how fast and how good.

`summary.py` computes one `Status` from a `View`, without a terminal; `screen.py` draws it,
`listing.py` makes the rows of `list`. Both verbs print the same numbers with `--json`.
"""
