"""The state process: a store, served over HTTP."""
