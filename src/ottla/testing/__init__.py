"""What tests share, ours and our users'."""
