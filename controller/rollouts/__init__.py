"""Duties of the leader about versions: rollouts, the history of splits, and versions that serve nobody.

What is decided is in `tidegate.domain.rollout`; here is when it is looked at, and what of it is written.
"""
