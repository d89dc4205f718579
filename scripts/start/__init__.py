"""When a waiting run starts: quotas, gangs, a simulation of Kueue's admission, an interval."""
