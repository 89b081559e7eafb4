"""Parameters folded by module: a sentence about some of them takes in none of which something else is true."""

from __future__ import annotations

from graphdoc.story.wording import folded

READER = ["agent.reader.0.weight", "agent.reader.0.bias", "agent.graph.weight", "agent.graph.bias"]


def test_names_are_folded_by_what_they_share() -> None:
    assert folded(READER) == "`agent.*` (4 parameters)"


def test_a_module_that_holds_others_as_well_is_taken_apart() -> None:
    assert folded(READER, beside=["agent.model.W"]) == "`agent.graph.*` and `agent.reader.0.*` (4 parameters)"
    assert folded(READER, beside=["critic.W", *READER]) == "`agent.*` (4 parameters)"
    assert folded(["net.a", "net.b"], beside=["net.c"]) == "`net.a` and `net.b`"
    lora = [f"net.{n}.{m}.{w}" for n in "012" for m in "qv" for w in ("lora_A", "lora_B")]
    frozen = [f"net.{n}.{m}.weight" for n in "012" for m in "qkv"]
    assert folded(lora, beside=frozen) == "`net.*.lora_A` and `net.*.lora_B` (12 parameters)"
    assert folded([f"net.{n}.q.weight" for n in "012"], beside=frozen) == "`net.*.q.weight` (3 parameters)"
    assert folded(["net.0.w", "net.1.w"], beside=["net.2.w"]) == "`net.0.w` and `net.1.w`"
