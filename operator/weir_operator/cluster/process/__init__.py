"""The controller process: handlers, health checks, settings, start and end."""
