"""The control loop of one StreamApp, a module for each step."""
