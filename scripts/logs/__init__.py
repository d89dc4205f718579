"""`megatron-dpo logs`: the output of ranks, from their pods, otherwise from the attempt's files.

`lines.py` is pure: it cuts blocks into lines, filters and prefixes them. `follow.py` reads pods,
one thread for each rank, and continues with the next pod of the rank. `files.py` reads
`attempts/<n>/node-<rank>.log` where the workspace is.
"""
