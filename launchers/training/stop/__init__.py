"""Save and stop at a step boundary when the launcher asks, because the pod received SIGTERM."""
