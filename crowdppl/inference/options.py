"""The engines as objects, and their options: name, type, default, check and meaning, in one place.

From the fields of :class:`EM`, :class:`SVI`, :class:`Gibbs` and :class:`NUTS` follow the signature of :func:`crowdppl.fit` (for
``help`` and completion), what the engines take, what is refused, and the options of the command.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

from crowdppl.arguments import (
    Check,
    anything,
    at_least_zero,
    between,
    choice,
    flag,
    positive,
    shown,
    whole,
)
from crowdppl.errors import OptionError, listed, suggestion

Method = Literal["em", "svi", "gibbs", "nuts"]
# What is easily taken for an option of an engine, with where it stands.
OF_FIT = {"every": "the seconds between two writes are given to crowdppl.fit: checkpoint=('state', 60)"}


@dataclass(frozen=True)
class Option:
    """What is known of an option of an engine besides its type.

    Attributes:
        default: of the engine; a model may have another in ``AnnotationModel.engine_defaults``.
        check: of a value other than ``None``, which is accepted where it is the default.
        help: what it is, in words.
        optional: whether ``None`` is accepted besides the default.
    """

    default: Any
    check: Check
    help: str
    optional: bool = False

    def checked(self, name: str, value: Any) -> Any:
        """Return a value as the engine takes it.

        Raises:
            OptionError: if it is outside its range.
        """
        return value if value is None and (self.default is None or self.optional) else self.check(name, value)


class _Unset:
    """What an option is that was not given: the model's default, else the engine's."""

    def __repr__(self) -> str:
        return "<default>"

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset()


@dataclass(frozen=True, kw_only=True, repr=False)
class Engine:
    """An engine with some options, as :func:`crowdppl.fit` takes it: ``fit(data, model, method=EM(restarts=2))``.

    Options that are not given have the model's default, else the engine's. Values are checked here.

    Attributes:
        method: the engine's short name.

    Raises:
        OptionError: for a value outside its range.
    """

    method: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            object.__setattr__(self, name, OPTIONS[self.method][name].checked(name, value))

    def given(self) -> dict[str, Any]:
        """Return the options that were given, by name."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not UNSET}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.given().items())})"


@dataclass(frozen=True, kw_only=True, repr=False)
class EM(Engine):
    """Exact marginal EM: the mode of the posterior of the parameters, with the true labels summed out."""

    method: ClassVar[str] = "em"

    max_iter: Annotated[int, Option(2000, whole(1), "most E steps")] = UNSET
    tol: Annotated[
        float,
        Option(1e-9, at_least_zero, "stop where the log posterior rises by less than this fraction of itself"),
    ] = UNSET
    restarts: Annotated[
        int,
        Option(0, whole(0), "further starts, the first from the votes of those trusted least; the best end is kept"),
    ] = UNSET
    accelerate: Annotated[
        bool, Option(True, flag, "extrapolate along the path of closed-form steps (SQUAREM, Anderson) where that rises")
    ] = UNSET
    num_samples: Annotated[
        int | None,
        Option(None, whole(1), "draws for intervals, in place of 1,000, or down to 400 where a draw takes long"),
    ] = UNSET
    learning_rate: Annotated[float, Option(1e-3, positive, "of Adam, for networks")] = UNSET
    batch_size: Annotated[
        int | None,
        Option(64, whole(1), "items in a mini-batch, for networks; None for all at once, by L-BFGS", optional=True),
    ] = UNSET
    epochs: Annotated[int, Option(1, whole(1), "passes over the items in one M step, for networks")] = UNSET
    steps: Annotated[
        int | None, Option(None, whole(1), "gradient steps in one M step, for networks, in place of epochs")
    ] = UNSET
    fine_tune: Annotated[
        int, Option(0, whole(0), "for networks: gradient steps on all parameters after the last M step")
    ] = UNSET
    fine_tune_truths: Annotated[
        Literal["item", "annotation"],
        Option(
            "item",
            choice("item", "annotation"),
            "likelihood that fine_tune raises: item, the marginal one; annotation, with a truth for each annotation",
        ),
    ] = UNSET
    validation: Annotated[
        Any, Option(None, anything, "features and classes of held-out items: the step that predicts them best is kept")
    ] = UNSET


@dataclass(frozen=True, kw_only=True, repr=False)
class SVI(Engine):
    """Stochastic variational inference: a family of distributions, fitted by gradients."""

    method: ClassVar[str] = "svi"

    max_iter: Annotated[int, Option(3000, whole(1), "most gradient steps")] = UNSET
    tol: Annotated[
        float, Option(1e-5, at_least_zero, "stop where the mean loss of a window falls by less than this fraction")
    ] = UNSET
    learning_rate: Annotated[float, Option(0.05, positive, "of Adam; it falls to a tenth over max_iter steps")] = UNSET
    batch_size: Annotated[int | None, Option(None, whole(1), "items a step; defaults to all of them")] = UNSET
    num_samples: Annotated[int, Option(1000, whole(1), "draws from the fitted guide")] = UNSET
    guide: Annotated[
        Literal["auto", "full-rank", "low-rank", "point"],
        Option(
            "auto",
            choice("auto", "full-rank", "low-rank", "point"),
            "auto: the model's own, else independent normals; full-rank, low-rank: one normal for all; point: no intervals",
        ),
    ] = UNSET
    validation: Annotated[
        Any, Option(None, anything, "features and classes of held-out items: the epoch that predicts them best is kept")
    ] = UNSET


@dataclass(frozen=True, kw_only=True, repr=False)
class Gibbs(Engine):
    """Gibbs sampling: draws from the posterior, by conditionals in closed form and by gradients where there are none."""

    method: ClassVar[str] = "gibbs"

    chains: Annotated[int, Option(4, whole(1), "each from its own disturbed majority vote")] = UNSET
    warmup: Annotated[
        int, Option(500, whole(0), "sweeps thrown away, more if the first half of the rest is a trend")
    ] = UNSET
    num_samples: Annotated[
        int | None, Option(None, whole(1), "sweeps kept per chain, in place of sampling until convergence")
    ] = UNSET
    max_seconds: Annotated[
        float,
        Option(60.0, positive, "time to reach convergence (R-hat at most 1.01, effective sample size at least 400)"),
    ] = UNSET


@dataclass(frozen=True, kw_only=True, repr=False)
class NUTS(Engine):
    """The no-U-turn sampler: draws from the posterior by gradients, with the true labels summed out."""

    method: ClassVar[str] = "nuts"

    chains: Annotated[int, Option(4, whole(1), "run in turn, each from its own disturbed majority vote")] = UNSET
    warmup: Annotated[int, Option(500, whole(1), "draws for adaptation, thrown away")] = UNSET
    num_samples: Annotated[int, Option(500, whole(1), "draws kept per chain")] = UNSET
    target_accept: Annotated[
        float, Option(0.8, between(0, 1, 0.8), "acceptance probability that the step size is tuned to")
    ] = UNSET
    max_tree_depth: Annotated[int, Option(10, whole(1, 20), "at most 2 to this power gradients a draw")] = UNSET
    jit: Annotated[
        bool | None,
        Option(None, flag, "record the operations of the density; defaults to doing so for 200 draws and more"),
    ] = UNSET
    non_centred: Annotated[
        bool | None,
        Option(
            None,
            flag,
            "move normal sites with a learned mean or scale as standard normal ones; defaults to where data say little",
        ),
    ] = UNSET


TYPES: dict[str, type[Engine]] = {kind.method: kind for kind in (EM, SVI, Gibbs, NUTS)}
OPTIONS: dict[str, dict[str, Option]] = {
    method: {
        name: next(part for part in hint.__metadata__ if isinstance(part, Option))
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
        if name != "method"
    }
    for method, kind in TYPES.items()
}


def require_method(name: str, value: Any) -> str:
    """Accept the name of an engine."""
    if not isinstance(value, str) or value not in OPTIONS:
        near = suggestion(value, OPTIONS) if isinstance(value, str) else ""
        raise OptionError(f"no method {shown(value)}{near}; use one of {listed(OPTIONS)}")
    return value


def require_option(method: str, name: str) -> None:
    """Check that an engine has an option.

    Raises:
        OptionError: if it has not.
    """
    known = OPTIONS[method]
    if name not in known:
        if name in OF_FIT:
            raise OptionError(f"method {method!r} has no option {name!r}; {OF_FIT[name]}")
        others = [other for other, options in OPTIONS.items() if name in options]
        of = f", which is an option of {' and '.join(map(repr, others))}" if others else suggestion(name, known)
        raise OptionError(f"method {method!r} has no option {name!r}{of}; it takes {', '.join(known)}")


def require_engine(name: str, value: Any) -> Any:
    """Accept the name of an engine, or an engine with options."""
    return value if isinstance(value, Engine) and type(value) is not Engine else require_method(name, value)


def taken_apart(method: str | Engine | None, options: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the name of an engine, and its options with those that were given beside it.

    Raises:
        OptionError: if an option is given twice.
    """
    if not isinstance(method, Engine):
        return method, dict(options)
    given = method.given()
    if twice := [name for name in given if name in options]:
        raise OptionError(f"{twice[0]}= is given in method={method!r} and beside it; leave one of them")
    return method.method, {**given, **options}


def filled(method: str, given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return all options of an engine: those given, checked, else the model's defaults, else the engine's.

    Raises:
        OptionError: for an option that the engine does not have, or a value outside its range.
    """
    known = OPTIONS[require_method("method", method)]
    out = {name: option.default for name, option in known.items()}
    for name, value in {**(defaults or {}), **given}.items():
        require_option(method, name)
        out[name] = known[name].checked(name, value)
    return out


def completed(method: str, given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> Any:
    """Return an engine with all of its options, as :func:`filled` finds them: what the function of an engine takes."""
    return TYPES[method](**filled(method, given, defaults))


# ---------------------------------------------------------------------- as others show them


def _finish(kind: type[Engine]) -> None:
    """Let the class of an engine refuse other options in one line, and show types, defaults and meanings to ``help``."""
    fill = kind.__init__
    hints = typing.get_type_hints(kind)

    @functools.wraps(fill)
    def init(self: Engine, *unnamed: Any, **options: Any) -> None:
        if unnamed:
            raise OptionError(
                f"{kind.__name__} takes options by name, such as {kind.__name__}({next(iter(options_of))}=...)"
            )
        for name in options:
            require_option(kind.method, name)
        fill(self, **options)

    options_of = OPTIONS[kind.method]
    kind.__init__ = init  # type: ignore[method-assign, assignment]
    kind.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=option.default, annotation=hints[name])
            for name, option in options_of.items()
        ]
    )
    lines = [f"    {name}: {option.help}. Defaults to {option.default!r}." for name, option in options_of.items()]
    before = [kind.__doc__ or "", "", "A model may have other defaults.", "", "Args:"]
    after = [
        "",
        "Raises:",
        "    OptionError: for an option that the engine does not have, or a value outside its range.",
    ]
    kind.__doc__ = "\n".join([*before, *lines, *after])


for _kind in TYPES.values():
    _finish(_kind)
