"""A console for streams and consumer groups, in the browser and in the terminal.

It works with Rillet, Redis from 6.2 on and Valkey from 7.2 on, and knows a server by its protocol only.
"""
