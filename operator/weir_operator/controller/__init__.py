"""The loops: one Operator Manager per operator, one Application Manager per StreamApp."""
