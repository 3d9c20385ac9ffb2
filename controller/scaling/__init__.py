"""Tells how many replicas each cluster should have: looks, lets tidegate.domain.scaling decide, writes and exports."""
