"""Turns decisions into LDS/RDS/CDS/EDS and pushes them to every Envoy. Stateless.

What to serve (`desired`, `resources`, `consistency`, `assembly`, `snapshot`, `cache`) and how a stream speaks
(`subscription`, `server`) are apart, and meet in the cache alone; `publisher` feeds it from the store. No policy
about weights belongs here. `tidegate xds` calls `app`, `tidegate up` calls `bootstrap`.
"""
