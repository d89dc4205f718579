"""The local runner: executes a rendered JobSet as processes of this machine."""
