"""Transactions in a simulated cluster: transfers between accounts, and what is made of them further on."""
