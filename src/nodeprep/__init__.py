"""nodeprep brings rented bare-metal GPU servers into a training cluster."""

__version__ = "0.1.0"
