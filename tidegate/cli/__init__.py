"""The `tidegate` command. Thin: it reads flags, wires services to adapters and prints; rules live below.

`main` registers the subcommands, `up` runs a local cluster as one process tree, `binaries` finds the programs
that Tidegate runs but does not contain. Nothing imports this package.
"""
