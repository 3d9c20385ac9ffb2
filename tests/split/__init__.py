"""Splits of a model among clusters: which user meets which version, overrides and shadows."""
