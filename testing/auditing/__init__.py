"""``rillet audit``: test an unmodified worker against the promises of a stream consumer.

Each promise is an experiment on its own server: set up a state, let something happen, observe the effect in the server's
recording, and give a verdict. An effect that cannot be observed is not judged.
"""
