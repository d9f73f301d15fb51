"""The bytes between host and compiler: log format and FIFO channel."""
