"""Requests that wait for room, and what decides about them beside the body.

`later` is how a session says that its answer comes later, `arrival` a request on its way, `gate` the door of one
cluster, `gates` all of them and their clock, `weigh` what a request asks of a replica, `sorting` its class and
priority, `explain` why it went where it went, `metrics` and `report` what operators see. `decide` and `app` call this.
The rules themselves are in `tidegate.domain.flow`.
"""
