"""What people read: the live view, reports of runs, explanations of decisions."""
