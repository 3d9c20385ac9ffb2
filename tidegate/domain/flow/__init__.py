"""Who waits when no replica has room, in which order, for how long, and what the others are told.

`classes` says which class and priority a request has, `settings` what operators tune, `waiting` what waits, `fair` and
`level` whose turn it is, `queue` bounds it all, `drain` says when to come back, `batch` groups a burst. ext_proc's
gate calls `queue` and `batch`; nothing here reads a clock or a socket: times are passed in.
"""
