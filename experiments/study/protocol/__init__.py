"""What is asked of a study: whether its claims hold, which policy it chooses, what changed since an earlier one."""
