"""Carriers of ext_proc sessions. A transport moves bytes between Envoy and `ext_proc.session`, and decides nothing."""
