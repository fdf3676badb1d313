"""Workspaces, who may use them, and the language they are analysed in."""
