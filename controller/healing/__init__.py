"""Acts without an alert: replicas with faults get less traffic, and failing clusters no retries.

The rule is tidegate.domain.healing; what follows from an act is that of any other (tidegate.domain.actions).
"""
