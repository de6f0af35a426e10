"""The ports to the outside world (clock, disk, network, executor) and the real ones behind them; metrics and logs."""
