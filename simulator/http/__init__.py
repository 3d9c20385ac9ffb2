"""A stand-in engine: the model of `simulator.engine` in real time, behind the APIs that vLLM serves.

`driver` ties the model to the clock; `prompt` and `text` turn bodies into tokens and seeds into words; one module
an API family; `families` and `vllm_metrics` write the metrics page; `faults` and `record` are for tests. Answers
have the right shape and cost, and no meaning. `server.build` puts an application together.
"""
