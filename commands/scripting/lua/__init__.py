"""Lua for EVAL and FCALL: the interpreter that scripts run in, and what they see of the server.

The Lua side stands in the ``.lua`` files beside: ``sandbox.lua`` builds what a script may touch and runs it,
``replies.lua`` turns what it returns into RESP, the others are the libraries that Redis ships. The Python side:
``interpreter`` owns the Lua state, ``calls`` is redis.call, ``conversions`` carries values across, ``scripts`` keeps
what EVAL and SCRIPT LOAD brought, ``functions`` the libraries of FUNCTION LOAD, ``scripting`` ties them to a server.
"""
