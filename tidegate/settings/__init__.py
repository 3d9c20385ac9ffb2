"""What a process is told at start: flags, environment and the configuration file.

`services` holds one frozen dataclass a service, `flags` derives command-line flags and environment names from
them mechanically, `config_file` reads `tidegate.yaml` into the domain's Topology. Nothing here does I/O beyond
reading that file.
"""
