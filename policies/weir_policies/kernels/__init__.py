"""The building blocks of compiled policies: view, state, tables, plans, moves."""
