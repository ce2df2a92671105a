"""The WorkerSupervisor actor: the worker process, its pipes, its in-flight requests, its restarts."""
