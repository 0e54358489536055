"""
The state process: a store, served over HTTP to those who hold a token.

It needs `fencepost[server]`.  Nothing outside this package imports Starlette or
uvicorn, and nobody imports this package who does not serve.
"""
