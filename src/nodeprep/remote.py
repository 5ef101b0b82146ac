"""One way to a node: pyinfra's SSH connector, strict about host keys. Used by probe and accept."""
