"""HTTP by which alerts and annotations come back: checks who asks, reads what is said, and leaves notices in the inbox.

`payload` reads bodies (pure), `limits` says how often, `connections` how many at once, `server` answers, `access` is
the token. Nothing here acts: `controller.actions` of the instance that leads does.
"""
