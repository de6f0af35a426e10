"""The v2 record batch: header view, validation, building, compression."""
