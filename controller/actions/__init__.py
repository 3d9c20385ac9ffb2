"""What the leader does about notices: it takes them in, ends what is over, and says what is in force.

`duty` is the Duty, `audit` its events, `instruments` its metrics. The rules of time and identity are in
`tidegate.domain.actions`.
"""
