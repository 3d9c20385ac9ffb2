"""Alerts that act: what an act does, what all acts in force add up to, and which rule makes which act. Pure.

`effects` is what every service reads, `act` one act, `notice` what is known of one alert, `rules` how a notice meets
rules, `book` what the leader remembers of notices, `layers` what acts change of weights, retries and splits. No clock,
no I/O: times are Unix milliseconds that are passed in.
"""
