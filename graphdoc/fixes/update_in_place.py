"""Write into a leaf instead of binding its name anew: the same edit and args as ``under_no_grad_update``."""

from __future__ import annotations

from graphdoc.fixes.under_no_grad_update import edit as edit

KIND = "update_in_place"
