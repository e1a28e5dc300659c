"""Names of language models: the routes to a model, its maker and its version, and judges that may be one model."""

import time

import pandas as pd
import pytest

from crowdppl.errors import silent
from crowdppl.judges import Verdicts
from crowdppl.judges.coding.model_names import family_of, makers_of, notes_on, parts_of


def verdicts(names):
    rows = [(n, name, "yes" if n % 2 else "no") for name in names for n in range(4)]
    with silent("the verdicts"):
        return Verdicts.from_frame(pd.DataFrame(rows, columns=["item", "judge", "verdict"]))


@pytest.mark.parametrize(
    ("judge", "maker", "model"),
    [
        ("azure/gpt-4o", "", "gpt-4o"),
        ("openai:chat:gpt-4o", "openai", "gpt-4o"),
        ("openrouter/openai/gpt-4o", "openai", "gpt-4o"),
        ("together_ai/Meta-Llama/Llama-3-70b", "meta-llama", "llama-3-70b"),
        ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", "anthropic", "claude-3-5-sonnet-20241022"),
        ("ft:gpt-4o-mini:org::abc", "", "gpt-4o-mini:org::abc"),
        ("mistral:7b", "", "mistral:7b"),
        ("llama3:8b", "", "llama3:8b"),
        ("gpt-4o: helpful", "", "gpt-4o: helpful"),
        ("Qwen2.5-0.5B", "", "qwen2.5-0.5b"),
        ("judge.1", "", "judge.1"),
        ("llm:mistral-7b/1", "llm:mistral-7b", "1"),
        ("Command R+/x", "command r+", "x"),
        ("/x", "", "/x"),
        # Plain words are words of a route only before a service, a company or a known model.
        ("us.anna", "", "us.anna"),
        ("chat/a", "chat", "a"),
        ("api/bob", "api", "bob"),
        ("models/a", "models", "a"),
        ("us/anna", "us", "anna"),
        ("models/gemini-pro", "", "gemini-pro"),
        ("accounts/fireworks/models/llama-3", "", "llama-3"),
        ("eu.amazon.nova-pro", "amazon", "nova-pro"),
    ],
)
def test_parts_of_a_name(judge, maker, model):
    assert parts_of(judge)[:2] == (maker, model)


def test_who_serves_a_model_is_not_its_maker():
    names = ["azure/gpt-4o", "openai:chat:gpt-4o", "bedrock/anthropic.claude-v2", "claude-3", "vertex_ai/gemini-pro"]
    data = verdicts(names)
    assert data.families[data.family].tolist() == ["openai", "openai", "anthropic", "anthropic", "gemini"]
    assert makers_of(["x/gpt-4", "y/gpt-4", "z/llama"]) == {"llama": "z"}  # of two makers none is known
    assert family_of("gpt-4", {"gpt": "openai"}) == "openai"
    assert family_of("gpt-4") == "gpt"
    data = verdicts(["openai/gpt-4o", "o3-mini", "gemma-2", "gemini-1.5-pro", "google/gemini-2.0-flash"])
    assert data.families[data.family].tolist() == ["openai", "openai", "google", "google", "google"]


@pytest.mark.parametrize(
    ("names", "part"),
    [
        (["azure/gpt-4o", "openai:chat:gpt-4o"], "written for several services"),
        (["openrouter/openai/gpt-4o", "openai/gpt-4o"], "written for several services"),
        (["bedrock:anthropic.claude-v2", "claude-v2"], "written for several services"),
        (
            ["us.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3.5-sonnet-20241022"],
            "written for several services",
        ),
        (["gpt-4o", "gpt-4o-2024-08-06"], "with a version and without one"),
        (["claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"], "with a version and without one"),
        (["gemini-pro", "vertex_ai/gemini-pro@001"], "with a version and without one"),
        (["gpt-4o_run1", "gpt-4o_run2"], "are calls of one judge by their names"),
        (["anna run 1", "anna run 2", "anna run 3"], "are calls of one judge by their names"),
        (["gpt-4", "gpt-4-0613"], "with a version and without one"),
        (["judge 1", "judge 01"], "in another form"),
        (["Human annotator 1", "gpt-4o"], "is a person by its name"),
    ],
)
def test_judges_that_may_be_one(names, part):
    assert part in " ".join(verdicts(names).notes)


@pytest.mark.parametrize(
    "names",
    [
        ["gpt-4", "gpt-4o", "gpt-4-turbo", "gpt-4o-mini"],
        ["gpt-4o-2024-05-13", "gpt-4o-2024-08-06"],
        ["llama3:8b", "llama3:70b", "mistral:7b", "qwen:7b"],
        ["mistral-7b-v0.1", "mistral-7b-v0.2"],
        ["gpt-4o: helpful", "gpt-4o: correct", "azure/gpt-4o: concise"],
        ["a/base-7b", "b/base-7b"],
        ["judge1", "judge2"],
        ["model_iter_1", "model_iter_2"],
        ["o1", "o1-preview", "o3"],
        ["sales rep 1", "sales rep 2"],
        ["us.anna", "eu.anna"],
        ["grader-1020", "grader"],
        ["judge-001", "judge"],
        ["llama-1024", "llama"],
        ["llama-1332", "llama"],
    ],
)
def test_different_judges(names):
    assert len(verdicts(names).notes) == 1  # of their families


def test_many_judges_take_little_time():
    names = [f"model{n} run {k}" for n in range(7_000) for k in range(3)]
    before = time.process_time()
    notes_on(names, [], "t")
    assert time.process_time() - before < 3.0
