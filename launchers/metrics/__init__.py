"""``metrics.jsonl``: the rows, their arithmetic and their writer; nothing here imports torch.

May import ``plan`` and below.
"""
