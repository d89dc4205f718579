"""Heartbeats of a training process, and the handler that dumps its stacks when it hangs."""
