"""GD5: a call that autograd does not take in this form."""
