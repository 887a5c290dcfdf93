"""Lua for EVAL and FCALL: the interpreter, and the functions of the server that scripts can call.

The Lua side stands in the ``.lua`` files beside: ``sandbox.lua`` builds what a script may touch and runs it,
``replies.lua`` turns what it returns into RESP, the others are the libraries that Redis ships. The Python side:
``interpreter`` owns the Lua state, ``redis_call`` is redis.call, ``conversions`` carries values across,
``script_cache`` keeps what EVAL and SCRIPT LOAD brought, ``libraries`` what FUNCTION LOAD brought, ``script_run`` the
state of one run, and ``engine`` ties them to a server.
"""
