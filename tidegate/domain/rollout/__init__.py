"""A canary meets traffic step by step: the plan, what both versions did, the rule that judges, and the course. Pure.

`plan` reads what an operator asks for, `chance` has the tests, `rule` says whether the canary is worse, `evidence` adds
up figures of a step, `course` decides what happens next. Clock, store and log belong to the controller's duty.
"""
