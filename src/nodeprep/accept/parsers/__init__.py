"""Pure parsers of what the tools of a GPU node print. Nothing here runs anything or judges."""
