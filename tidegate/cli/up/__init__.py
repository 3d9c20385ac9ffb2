"""`tidegate up`: a local cluster as one process tree.

`ports` chooses addresses, `plan` states which processes there are, `processes` starts, restarts and ends them,
`readiness` says when requests are served, `once` sends one request to each cluster, `command` ties them together.
"""
