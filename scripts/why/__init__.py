"""`megatron-dpo why`: why a run waits, fails or has ended, with the remedy.

`states.yaml` is the table: id, kind, sentence and remedy of each state, in the order of the report.
The condition of a state is a pure function `View -> facts or None` in the module of its subject;
the facts fill the sentence. `reasons.py` joins both.
"""
