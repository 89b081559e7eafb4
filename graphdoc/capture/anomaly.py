"""Anomaly mode as the user set it, beside anomaly mode as we need it: on, with our stacks and without the NaN check."""

from __future__ import annotations

from typing import Any


class UsersView:
    """Keeps what the user asked for and what is really set apart.

    ``wanted`` is the user's own setting; ``torch.is_anomaly_enabled()`` and ``torch.autograd.detect_anomaly`` read it.
    With ``nan`` the NaN check is on whatever the program asks for (``graphdoc run --nan``).
    """

    def __init__(self, torch: Any, nan: bool = False) -> None:
        self._torch = torch
        self._nan = nan
        self._set = torch.set_anomaly_enabled
        self._is = torch.is_anomaly_enabled
        self._is_check = torch.is_anomaly_check_nan_enabled
        self.wanted: bool = self._is()
        self.check_nan: bool = self._is_check()
        self.paused = False
        self.off = False
        torch.set_anomaly_enabled = self._users_set
        torch.is_anomaly_enabled = self._users_is
        torch.is_anomaly_check_nan_enabled = self._users_check
        self._apply()

    def _users_set(self, enabled: bool, check_nan: bool = True) -> None:
        self.wanted, self.check_nan = bool(enabled), bool(check_nan)
        self._apply()

    def _users_is(self) -> bool:
        return self.wanted

    def _users_check(self) -> bool:
        return self.check_nan

    def _apply(self) -> None:
        if self.off:
            self._set(self.wanted, self.check_nan)
        else:
            self._set(not self.paused, self._nan or (self.wanted and self.check_nan))

    def pause(self) -> None:
        """No stacks for a moment (while graphdoc itself looks around)."""
        self.paused = True
        self._apply()

    def resume(self) -> None:
        self.paused = False
        self._apply()

    def switch_off(self) -> None:
        """Leave anomaly mode to the user for the rest of the run (torch.compile refuses it)."""
        self.off = True
        self._apply()

    def undo(self) -> None:
        torch = self._torch
        torch.set_anomaly_enabled, torch.is_anomaly_enabled = self._set, self._is
        torch.is_anomaly_check_nan_enabled = self._is_check
        self._set(self.wanted, self.check_nan)


def keep_users_view(torch: Any, nan: bool = False) -> UsersView:
    """Switch anomaly mode on for us without the user seeing it."""
    return UsersView(torch, nan)
