"""Lua for EVAL and FCALL: the interpreter, and the functions of the server that scripts can call.

The Lua side is in the ``.lua`` files of this folder: ``sandbox.lua`` builds the environment of a script and runs it,
``replies.lua`` encodes its result as RESP, the others are the libraries that Redis ships. The Python side:
``interpreter`` owns the Lua state, ``redis_call`` implements redis.call, ``conversions`` converts values,
``script_cache`` keeps the scripts of EVAL and SCRIPT LOAD, ``libraries`` the code of FUNCTION LOAD, ``script_run`` the
state of one run, and ``engine`` connects them to a server.
"""
