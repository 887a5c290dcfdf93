"""``rillet audit``: a worker as it is, put through the promises of a stream consumer.

Each promise is an experiment on a server of its own: a state, something that happens, what is seen of it in the recording of
the server, a verdict. What cannot be seen is not judged.
"""
