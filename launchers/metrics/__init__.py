"""``metrics.jsonl``: rows, arithmetic, writer; the trainer's own log. Nothing here imports torch.

May import ``plan`` and below.
"""
