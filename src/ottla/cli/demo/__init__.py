"""The small pipeline that `ottla up --spark` runs beside the node, to be looked at."""
