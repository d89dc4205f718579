"""The pair ledger: what each pair of a DPO run was trained with, in ``pairs/`` of the run's folder.

Each rank keeps its pairs in memory; before a checkpoint rank 0 writes those of all ranks. A resumed
attempt first removes the pairs after the checkpoint that it resumes from.
"""
