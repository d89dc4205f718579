"""Saves. Checkpoints of Megatron: copied to host memory, written while training continues.

A save copies what a rank has to write into one buffer (``host_buffer.py``); a process of its own
writes the buffer (``write_process.py``); a thread of rank 0 waits for all ranks, writes the index
and seals the checkpoint (``background.py``). ``megatron.py`` connects this with upstream.
``foreground.py`` is about all other saves, of either trainer.
"""
