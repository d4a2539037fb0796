"""toyframe, a made-up framework in plain Python."""
