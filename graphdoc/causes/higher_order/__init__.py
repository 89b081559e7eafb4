"""GD4: gradients of gradients."""
