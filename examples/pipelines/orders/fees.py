"""What an order costs besides."""

from __future__ import annotations

from decimal import Decimal
from typing import Any


def with_fee(order: dict[str, Any]) -> dict[str, Any]:
    """An error rejects the order, with the error as the reason."""
    amount: Decimal = order["amount"]
    if amount > 1_000_000:
        raise ValueError(f"an order of {amount} needs a signature")
    fee = (amount * Decimal("0.02")).quantize(Decimal("0.01"))
    return {"id": order["id"], "customer": order["customer"], "amount": amount, "fee": fee}
