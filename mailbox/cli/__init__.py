"""The command line: text to commands and views, errors to exit statuses."""
