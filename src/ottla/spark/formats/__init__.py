"""What keys and values mean, for the options `decode` and `encode`: a file for each format."""
