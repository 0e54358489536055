"""The mailbox as tools for models, over the Model Context Protocol."""
