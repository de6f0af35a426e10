"""KRaft's metadata records, one module a type. All but base.py is generated: see tools/generate_records.py."""
