"""What a process is told at start: flags, environment and the configuration file.

`services` holds one frozen dataclass a service, `flags` derives command-line flags and environment names from
them mechanically, `config_file` reads `tidegate.yaml` into the domain's Topology (`config_tree` has the lines,
`config_model` and `config_actions` the keys, `config_checks` what holds between keys, `config_sentences` the
messages), `redis_url` takes a Redis URL apart. Nothing here does I/O beyond reading that file.
"""
