"""The planner and ``Remem.context`` end to end: does what is relevant arrive, and nothing else?"""
