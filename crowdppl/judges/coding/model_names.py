"""Names of language models as programs write them: who serves the model, who has built it, the model, and its version."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from crowdppl.errors import listed

# Services and programs that run models of others, and words of a route to a model.
_HOSTS = frozenset(
    """
    azure|azureml|azure_ai|azure_openai|bedrock|bedrock_converse|converse|sagemaker|vertex|vertexai|vertex_ai
    |vertex_ai_beta|openrouter|together|togetherai|together_ai|fireworks|fireworks_ai|groq|replicate|deepinfra|anyscale
    |huggingface|hf|ollama|ollama_chat|vllm|hosted_vllm|lm_studio|lmstudio|litellm|litellm_proxy|sglang|tgi|nvidia_nim
    |github|github_models|cloudflare|cerebras|sambanova|novita|hyperbolic|nebius|portkey|helicone
    """.replace("\n", "")
    .replace(" ", "")
    .split("|")
)
# Words of a route that are also plain words: they say nothing of a judge only beside a service, a company or a known model.
_ON_THE_WAY = frozenset(
    """
    models|model|accounts|deployments|endpoints|publishers|api|chat|completion|completions|messages|responses|ft|us|eu|apac
    |global
    """.replace("\n", "")
    .replace(" ", "")
    .split("|")
)
# The letters at the beginning of the names of models that many services run.
_MODELS = frozenset(
    """
    gpt|chatgpt|o|claude|gemini|gemma|palm|llama|codellama|vicuna|alpaca|mistral|mixtral|ministral|codestral|magistral|pixtral
    |qwen|qwq|deepseek|phi|command|nova|titan|grok|yi|glm|chatglm|kimi|falcon|dbrx|nemotron|olmo|granite|jamba|solar|zephyr
    |prometheus|davinci|babbage|curie|ada|text|bison|sonnet|haiku|opus|minimax|internlm|baichuan|hermes|wizardlm|starling
    """.replace("\n", "")
    .replace(" ", "")
    .split("|")
)
# Models of one maker, or of one base model, by the letters that stand for all of them.
_ALIKE = {
    **dict.fromkeys(("chatgpt", "o", "davinci", "babbage", "curie"), "gpt"),
    **dict.fromkeys(("sonnet", "haiku", "opus"), "claude"),
    **dict.fromkeys(("gemma", "palm", "bison"), "gemini"),
    **dict.fromkeys(("mixtral", "ministral", "codestral", "magistral", "pixtral"), "mistral"),
    "codellama": "llama",
    "qwq": "qwen",
    "chatglm": "glm",
    "titan": "nova",
}
# Companies whose models are also written with their name before a colon or a point. Before a colon some of these are models, as
# mistral:7b.
_BEFORE_COLON = frozenset(["openai", "anthropic", "google", "cohere", "ai21", "amazon", "xai", "microsoft"])
_BEFORE_POINT = _BEFORE_COLON | frozenset(["meta", "mistral", "mistralai", "deepseek", "alibaba", "qwen", "nvidia"])
_ROUTE = re.compile(r"([\w-]+)([/:.])(?=[^\s/:.])")
# The number of an interface behind a model of Bedrock.
_INTERFACE = re.compile(r"-v\d+:\d+$")
_LETTERS = re.compile(r"[^\W\d_]+")
_MARKS = re.compile(r"[\s._-]+")
# A day, a day without its year, or a number behind the name of a model; 1024 is a size.
_VERSION = re.compile(
    r"[-@:](20\d\d-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])|(?P<short>(?!1024)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])|00[1-9])|latest)$",
    re.IGNORECASE,
)
_LATEST = re.compile(r"[-:@]latest$", re.IGNORECASE)
# A number of a call or a repeat at the end of a name, which is one beyond doubt with more of the same or behind a known model.
_MANY = 3
_RUN = re.compile(
    r"(?P<who>.+?)[-_. (#]+(?:run|call|trial|repeat|rep|repetition|attempt|try|sample)[-_ =]?\d+\)?",
    re.IGNORECASE,
)


class Model(NamedTuple):
    """Parts of the name of a model, in lower case.

    Attributes:
        maker: who has built it, blank if the name does not say so.
        name: the model, with its version.
        routed: whether the name says who serves it.
    """

    maker: str
    name: str
    routed: bool

    @property
    def stem(self) -> str:
        """The letters at the beginning of its name, such as ``gpt``; of a known model those of its maker's best known one."""
        letters = _LETTERS.match(self.name)
        word = letters.group() if letters else self.name
        return _ALIKE.get(word, word) if is_model(self.name) else word


def parts_of(judge: object) -> Model:
    """Return the parts of a name such as ``azure/gpt-4o``, ``openai:chat:gpt-4o`` or ``us.anthropic.claude-v2``."""
    rest, maker, routed = str(judge).strip().lower(), "", False
    while True:
        match = _ROUTE.match(rest)
        word, sign = match.groups() if match else ("", "")
        named = sign == "/" or (sign == ":" and word in _BEFORE_COLON) or (sign == "." and word in _BEFORE_POINT)
        passed = word in _HOSTS
        if match is not None and word in _ON_THE_WAY:
            passed = routed or bool(maker) or _known(rest[match.end() :])
        if match is None or not (named or passed):
            # Names such as llm:mistral-7b/prompt-1 say of what they are before a stroke, too.
            before, slash, after = rest.partition("/")
            if slash and before and after and ": " not in before:
                maker, rest = maker or before, after
            return Model(maker, _INTERFACE.sub("", rest), routed)
        if passed:
            routed = True
        else:
            maker = maker or word
        rest = rest[match.end() :]


def _known(rest: str) -> bool:
    """Return whether a name goes on with a service, a company or a known model, after other words of a route."""
    match = _ROUTE.match(rest)
    word, sign = match.groups() if match else ("", "")
    if match is not None and word in _ON_THE_WAY:
        return _known(rest[match.end() :])
    if match is not None and (word in _HOSTS or (word in _BEFORE_POINT and sign in "./:")):
        return True
    return is_model(rest.rpartition("/")[2])


def is_model(name: str) -> bool:
    """Return whether a name in lower case begins as that of a model that many services run, and goes on with a mark or digit."""
    letters = _LETTERS.match(name)
    return letters is not None and letters.group() in _MODELS and (len(letters.group()) > 1 or name[1:2].isdigit())


def family_of(judge: object, makers: Mapping[str, str] | None = None) -> str:
    """Return the family that a judge's name suggests, in lower case.

    It is the maker where the name states one (``openai/gpt-4o``: ``openai``), otherwise the letters before the first digit or
    mark (``gpt-4o``: ``gpt``, ``Llama3-70B``: ``llama``), otherwise the name. Known models of one maker are of one family
    (``o3``: ``gpt``, ``gemma-2``: ``gemini``). Who serves a model of others is no maker (``azure/gpt-4o``: ``gpt``).

    Args:
        judge: name of the judge.
        makers: makers by the letters of models, as other names state them: see :func:`makers_of`.
    """
    model = parts_of(judge)
    return model.maker or (makers or {}).get(model.stem, model.stem)


def makers_of(judges: Iterable[object]) -> dict[str, str]:
    """Return the maker of models by their letters, where the names of all that state one agree: ``gpt`` by ``openai``."""
    stated: dict[str, set[str]] = {}
    for judge in judges:
        model = parts_of(judge)
        if model.maker:
            stated.setdefault(model.stem, set()).add(model.maker)
    return {stem: makers.pop() for stem, makers in stated.items() if len(makers) == 1}


def _plain(model: str) -> str:
    """Return the name of a model without its version. Four digits may number anything, unless the model is a known one."""
    name = _LATEST.sub("", model)
    match = _VERSION.search(name)
    return name if match is None or (match["short"] and not is_model(name)) else name[: match.start()]


def notes_on(judges: Sequence[object], known: Iterable[str], source: str) -> list[str]:
    """Return notes on judges that may be one model: by several services, with a version beside none, or as repeated calls.

    Args:
        judges: distinct names.
        known: notes on names that were written before, whose names are not repeated.
        source: name of the table.
    """
    said = " ".join(known)
    names = [name for name in judges if isinstance(name, str)]
    models = {name: parts_of(name) for name in names}
    keys = {name: _MARKS.sub("-", model.name) for name, model in models.items()}
    notes = []
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(keys[name], []).append(name)
    served = [
        group
        for group in groups.values()
        if len(group) > 1
        and len({models[name].maker for name in group} - {""}) < 2
        and not all(repr(name) in said for name in group)
    ]
    if served:
        notes.append(
            f"{source}: the judges {listed(served[0], 4)} are one model by their names, written for several services; each is a "
            f"judge of its own: write them alike if they are the same"
        )
    versions: dict[str, list[str]] = {}
    for group in groups.values():
        plain = _plain(models[group[0]].name)
        versions.setdefault(_MARKS.sub("-", plain), []).append(group[0])
    for key, group in versions.items():
        open_ones = [name for name in group if keys[name] == key or _LATEST.search(models[name].name)]
        if len(group) > 1 and open_ones:
            notes.append(
                f"{source}: the judges {listed(group, 4)} are one model by their names, with a version and without one; each is "
                f"a judge of its own: write them alike if they are the same"
            )
            break
    runs = {name: match["who"] for name in names if (match := _RUN.fullmatch(name))}
    count = Counter(runs.values())
    again = [name for name, who in runs.items() if count[who] >= (2 if is_model(parts_of(who).name) else _MANY)]
    if again:
        notes.append(
            f"{source}: the judges {listed(again, 3)} are calls of one judge by their names, and each is a judge of its own; if "
            f"they are repeated calls, give them the name {runs[again[0]]!r}"
        )
    return notes
