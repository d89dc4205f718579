"""``metrics.jsonl``: rows, arithmetic, reader, writer; the trainer's own log.

Nothing here imports torch. May import ``plan`` and below.
"""
