"""Who owns a parameter: an optimizer, several, none, or one cannot tell."""

from __future__ import annotations

from graphdoc.evidence import Optimizer
from graphdoc.program.optimizer_places import Owners, Ownership
from graphdoc.story.wording import all_told

ACTOR = Optimizer(0, "Adam", "actor_optimizer", ["actor.weight", "shared.weight"])
CRITIC = Optimizer(1, "SGD", "", ["critic.weight", "shared.weight"])
OWNERS = Owners([ACTOR, CRITIC])


def test_one_optimizer() -> None:
    found = OWNERS.of(["actor.weight"])
    assert found == Ownership(frozenset({0}), frozenset(), frozenset())
    assert found.known


def test_several_optimizers() -> None:
    assert OWNERS.of(["shared.weight"]).optimizers == {0, 1}
    assert OWNERS.holding(["actor.weight", "critic.weight"]) == {0, 1}


def test_a_parameter_in_no_optimizer_is_free() -> None:
    found = OWNERS.of(["encoder.weight"])
    assert found == Ownership(frozenset(), frozenset({"encoder.weight"}), frozenset())


def test_of_a_parameter_without_a_name_the_owner_is_unknown() -> None:
    found = OWNERS.of(["<unnamed [3, 4]>", "actor.weight"])
    assert found == Ownership(frozenset({0}), frozenset(), frozenset({"<unnamed [3, 4]>"}))
    assert not found.known


def test_what_optimizers_hold() -> None:
    assert OWNERS.parameters([1]) == {"critic.weight", "shared.weight"}


def test_an_optimizer_is_called_by_its_name_else_by_what_it_holds_else_by_its_number() -> None:
    bare = Optimizer(2, "Adam")
    assert all_told([ACTOR, CRITIC, bare], [2, 0, 1]) == [
        "`actor_optimizer`",
        "the SGD of `critic.weight` and `shared.weight`",
        "Adam (optimizer 3)",
    ]
