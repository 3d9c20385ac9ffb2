"""The weight rule in a closed loop with simulated engines, in simulated time.

`fleet` holds engines, arrivals and Envoy's weighted round robin; `loop` puts a rule on top of it, as the controller
does; `study` draws what docs/weights.md shows.
"""
