"""The engines a worker can run. Each is a module with a class that fulfils `base.Engine`."""
