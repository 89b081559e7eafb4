"""Gym's interface from before version 0.26, on gymnasium: `reset()` gives a state, `step()` gives four values."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import *  # noqa: F403
from gymnasium import spaces as spaces


class Env(gymnasium.Wrapper):  # type: ignore[misc]
    """An environment whose episodes begin with a known seed."""

    first: int | None = 0

    def seed(self, seed: int | None = None) -> None:
        self.first = seed

    def reset(self, **more: Any) -> Any:
        seed, self.first = self.first, None
        return self.env.reset(seed=seed, **more)[0]

    def step(self, action: Any) -> Any:
        state, reward, terminated, truncated, more = self.env.step(action)
        return state, float(reward), terminated or truncated, more

    @property
    def _max_episode_steps(self) -> int | None:
        return self.env.spec.max_episode_steps if self.env.spec else None


def make(name: str, **more: Any) -> Env:
    """The environment of that name; a version that is no longer there becomes the newest."""
    name = {"Pendulum-v0": "Pendulum-v1", "CartPole-v0": "CartPole-v1"}.get(name, name)
    return Env(gymnasium.make(name, **more))
