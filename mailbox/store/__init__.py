"""Where documents are kept."""
