"""GD6: values that are not finite, and which function made the first one."""
