"""What a gateway does with three times the requests that its engines can serve.

`load` sends the requests and writes down what became of each, `figures` says what that means, `world` starts a
gateway with simulated engines, `measure` puts them together. `tests/flow` runs a short form of it.
"""
