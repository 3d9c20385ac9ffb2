"""The terms of the cost, one a file: each gives seconds for every replica of a situation, or None where it has no say.

Adding one means a file here and its name in the tuple in `tidegate.domain.pick.cost`. Terms are pure, and are called
for every pick: their loops are comprehensions over plain fields.
"""
