"""Tidegate in front of a real vLLM on CPU. Opt-in (3.5 GB): `make test-vllm` selects the marker `vllm`."""
