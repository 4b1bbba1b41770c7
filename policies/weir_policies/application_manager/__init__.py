"""Decisions for one application over all its operators: budgets, arbitration, restarts."""
