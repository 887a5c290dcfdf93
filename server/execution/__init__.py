"""Running commands: the dispatcher, its checks, blocking, propagation and background jobs."""
