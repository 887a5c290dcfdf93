"""EVAL, FUNCTION and the Lua interpreter behind them."""
