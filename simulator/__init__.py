"""One model of a continuous-batching engine, and an HTTP server that makes a stand-in engine of it.

`engine` is pure: simulated seconds in, events out. `http` runs it in real time behind the OpenAI API, with vLLM's
(or vllm-omni's) metrics page and faults for tests. `app` wires both; `tidegate engine-sim` calls it. What an
engine costs belongs here; what a gateway decides does not. Never imported by the services.
"""
