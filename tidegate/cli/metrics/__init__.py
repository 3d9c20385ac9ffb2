"""docs/metrics.md out of the registries of all services: `python -m tidegate.cli.metrics`, which `make docs` runs.

`registries` wires every service as its app does, `families` reads what is registered, `page` writes it down.
Nothing else calls this package.
"""
