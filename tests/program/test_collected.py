"""Groups of parameters that are filled and never read: told from the source, with the names that a loop takes."""

from __future__ import annotations

import textwrap

import pytest

from graphdoc.program.gathered_parameters import never_given

LOOSE, OTHERS = ["net.head.weight", "net.head.bias"], ["net.body.weight"]


def found(body: str) -> str:
    text = "def build(net):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    collected = never_given({"train.py": text}, LOOSE, OTHERS)
    return collected.name if collected is not None else ""


HEAD = """\
group = []
for n, p in net.named_parameters():
    if "head" in n:
        group.append(p)
"""
REST = "return Adam(net.body.parameters())\n"


def test_what_is_collected_and_never_read_is_found() -> None:
    assert found(HEAD + REST) == "group"


def test_a_dict_that_is_filled_in_two_steps_is_found() -> None:
    body = HEAD.replace("group = []", "group = {'lr': 1}\ngroup['params'] = []").replace(
        "group.app", "group['params'].app"
    )
    assert found(body + REST) == "group"


@pytest.mark.parametrize(
    "body",
    [
        HEAD + "return Adam(group)\n",
        HEAD + "print(len(group))\n" + REST,
        HEAD.replace("group = []", "group = []\nevery.append(group)") + REST,  # handed over before it is filled
        HEAD.replace("group = []", "group = given") + REST,  # somebody else's list
        HEAD + "keep = lambda: group\n" + REST,
        HEAD + "print(locals())\n" + REST,
        HEAD.replace("'head' in n".replace("'", '"'), "chosen(n)") + REST,  # the source does not tell whom it takes
        HEAD.replace('"head" in n', '"weight" in n') + REST,  # takes one that the optimizer holds
        HEAD.replace('"head" in n', '"neck" in n') + REST,  # takes none of these
        "while more():\n" + textwrap.indent(HEAD, "    ") + REST,  # a later turn may read it
    ],
)
def test_what_may_be_read_or_meant_is_not(body: str) -> None:
    assert found(body) == ""


def test_the_line_by_which_another_group_is_handed_over_is_known() -> None:
    body = "every = []\n" + HEAD.replace("head", "body") + "every.append(group)\n" + HEAD + "return Adam(every)\n"
    text = "def build(net):\n" + textwrap.indent(body, "    ")
    collected = never_given({"train.py": text}, LOOSE, OTHERS)
    assert collected is not None
    assert (collected.handed, collected.parameters) == ("every.append(group)", LOOSE)
    assert collected.following is not None
    assert text.splitlines()[collected.following.line - 1].strip() == "return Adam(every)"
