"""The client: a store that a state process keeps."""
