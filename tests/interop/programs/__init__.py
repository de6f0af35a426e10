"""Programs as tutorials have them, each whole in its file; tests run them as processes and crash what they can."""
