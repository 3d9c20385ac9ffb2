"""Which replica of a `pick` cluster a request goes to: filter → cost → pick.

`candidate` holds what is known of a replica and the moment of the pick, `ledger` counts our own dispatches,
`filters` says who may be chosen, each `cost_*` file is one term, `choose` puts them together. Adding a filter or
a term means one function here and its name in the tuple in `choose`. ext_proc calls `choose`; nothing here reads
a clock or a socket.
"""
