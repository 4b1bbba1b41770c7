"""What one application decides over all its operators: budgets, arbitration, restarts."""
