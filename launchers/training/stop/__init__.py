"""Save at a step boundary, by time, or to stop because the pod received SIGTERM."""
