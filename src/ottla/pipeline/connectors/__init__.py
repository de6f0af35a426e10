"""Where pipelines read from and write to. port.py is what each of them is, registry.py has their names."""
