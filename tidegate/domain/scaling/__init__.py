"""How many replicas each cluster should have. Pure: what starts or ends replicas reads the target elsewhere.

`crew` is what one look says of a cluster's replicas, `settings` the tunables, `order` what an operator typed, `rule`
how the target follows from them. Times are Unix milliseconds that are passed in.
"""
