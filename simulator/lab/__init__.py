"""The policy lab: a trace replayed in simulated time against engines of `simulator.engine`, one run a policy.

What a policy sees is what a picker sees: samples as old as the agent's, its own dispatches, its own requests' ends.
`readers` and `synthetic` give traces, `arrivals` turns one into calls of one seed, `replay` runs them, `measure` and
`confidence` sum up, `sweep` spreads runs over processes, `tables`, `plot_png` and the report show them. `policies`
holds one policy a file. Belongs here: anything that judges a policy. Does not: a policy that the product uses; that
is `tidegate.domain.pick`, and `policies.pick` alone adapts it. Called by `tidegate lab`. No clock, no I/O but
reading traces and writing reports, no randomness but that of the seed.
"""
