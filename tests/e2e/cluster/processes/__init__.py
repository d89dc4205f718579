"""The processes backend: control plane, JobSet and Kueue run as plain processes, without kind."""
