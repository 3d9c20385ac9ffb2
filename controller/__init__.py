"""Turns samples and operators' keys into weights and writes them to Redis. Formulas live in `tidegate.domain`; here are only the loop and its bookkeeping. Runs inside `tidegate xds` by default."""
