"""The contract of an annotation model: what a model states, and what it may add.

A model states how labels arise in three methods that return *distributions*: ``prior``, ``truth`` and ``emission``. All else
follows from them (:mod:`crowdppl.model.bound`): the Pyro program with its enumerated truth, the program with the truth summed
out, the item log joint, simulation, and worker quality. A model may describe its structure, and add closed forms that make
engines faster and never change a result: each is tested equal to the three methods.

Sizes: ``N`` items, ``J`` workers, ``A`` annotations, ``K`` classes, ``S`` states of the truth (``K``, unless the model splits
classes or has truths that are not classes). Leading axes ``...`` stand for several chains, restarts or draws of the parameters at
once. The shapes below are checked at run time by :func:`crowdppl.model.author_checks.check_contract`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from torch import Tensor, nn

from crowdppl.data.annotations import Annotations
from crowdppl.kernels.statistics import Statistics
from crowdppl.kernels.steps import CompiledStep
from crowdppl.model.coupling import Coupling
from crowdppl.model.graded_rows import RaterForm
from crowdppl.model.plates import Plates

if TYPE_CHECKING:  # that module imports this one
    from crowdppl.model.class_scores import ClassScores

Parameters = dict[str, Any]  # site name -> Tensor, and what prior adds for truth and emission (networks as functions)


class ClassifierTargets(NamedTuple):
    """What a network that predicts the truth is trained on.

    Attributes:
        network: its name in :meth:`AnnotationModel.networks`.
        targets: soft labels of the rows of ``data.features``, ``(N, K)``, times multiplicities.
        in_likelihood: whether the likelihood of the labels depends on the network too. Where not, EM raises the likelihood
            without the prior of its weights.
        certainty: weight of the entropy of the network's classes, which EM keeps low besides, where the likelihood leaves open
            how certain they are (entropy minimisation: Grandvalet and Bengio 2004, Advances in Neural Information Processing
            Systems 17).
    """

    network: str
    targets: Tensor
    in_likelihood: bool = True
    certainty: float = 0.0


class AnnotationModel(ABC):
    """A generative model of annotation.

    Subclass it (one level deep), usually as a frozen dataclass whose fields are the hyperparameters, and write :meth:`prior`,
    :meth:`truth` and :meth:`emission`. Everything else is optional.

    Attributes:
        dims: names of the axes of each site's value and of each derived quantity, for the result. Axes of plates may be omitted
            for sites.
        viewed: names of the sites and derived quantities of single workers or items that tables and plots show. The small form
            of a result's file keeps all draws of these, and few or none of others.
        default_method: the engine of a fit that names none; empty for Gibbs sampling if the model allows it, else EM.
        caveat: a sentence that every result of the model carries, on what its likelihood cannot tell.
        residual_rho: of a model that explains a part of the correlation between errors itself. Over public data sets
            ``logit rho`` of what it leaves has a mean of the first number less the log of the mean number of annotations an
            item, and a standard deviation of the second. ``None`` for the distribution of models that explain none.
    """

    dims: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    viewed: ClassVar[tuple[str, ...]] = ()
    default_method: ClassVar[str] = ""
    caveat: ClassVar[str] = ""
    residual_rho: ClassVar[tuple[float, float] | None] = None

    # ------------------------------------------------------------------ the generative model: required

    @abstractmethod
    def prior(self, data: Annotations, plates: Plates) -> Parameters:
        """Sample every continuous unknown with ``pyro.sample`` and return them by site name.

        Args:
            data: sizes ``data.J``, ``data.K``; the labels may not be used here.
            plates: ``plates.worker`` for sites ``(J, ...)``, ``plates.item`` for sites ``(N, ...)``, and ``plates.network(name)``
                for the weights of a network.
        """

    @abstractmethod
    def truth(self, parameters: Parameters, data: Annotations) -> Any:
        """Return ``p(truth_i)``: a Categorical over ``S`` states, one for all items or batch ``(N,)``."""

    @abstractmethod
    def emission(self, parameters: Parameters, data: Annotations) -> Any:
        """Return ``p(label_n | truth = s)``: a distribution over ``K`` labels with batch ``(A, S)``."""

    # ------------------------------------------------------------------ its structure: optional

    def states_per_class(self, data: Annotations) -> int:
        """Number ``M`` of states of the truth in each class, ``S = K M``. Defaults to 1.

        State ``k M + m`` belongs to class ``k``. ``truth`` and ``emission`` are over states; everything reported is summed over
        the states of a class.
        """
        return 1

    def states(self, data: Annotations) -> int:
        """Number ``S`` of states of the truth. Defaults to ``K M``; another one for a model with :meth:`reading`."""
        return data.K * self.states_per_class(data)

    def reading(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(class = k | truth = s)``, ``(..., S, K)``, where a state belongs to no one class.

        For truths that are not classes, such as a place on a line of which classes are grades. Known true labels are then
        observations with these probabilities, and everything reported is read off the states by them. Of the data, only sizes
        may be used.
        """
        raise NotImplementedError

    def coupling(self, parameters: Parameters, data: Annotations) -> Coupling:
        """Return how the truths of items depend on each other, with leading axes.

        A :class:`crowdppl.model.chains.Chain` along a sequence, or a :class:`crowdppl.model.label_mixture.LabelMixture` within a
        set of labels.

        ``truth`` is then the distribution of each item's state before any label is seen. Only for items that are not expanded,
        with one state in each class.
        """
        raise NotImplementedError

    def networks(self, data: Annotations) -> dict[str, nn.Module]:
        """Return the networks by name, freshly made for ``data.D`` features; ``plates.network(name)`` samples their weights."""
        return {}

    def expand(self, data: Annotations) -> Annotations:
        """Return the annotations in the layout that the model is about. Defaults to one truth for each item.

        ``data.item_label_cells()`` where each (item, label) pair has a truth of its own, ``data.per_annotation()`` where each
        annotation has.
        """
        return data

    def learn_class_scores(self, data: Annotations) -> ClassScores | None:
        """Return class scores of the items, which a fit learns once, before its engine begins; ``None`` for a model without.

        Their items then have ``data.class_scores``, and new items those of the classifier.
        """
        return None

    def derived(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return further quantities to report with each draw, by name, with their axes in ``dims``.

        Those with an axis ``annotation`` ``(A, ...)`` or ``item`` ``(N, ...)`` are averaged over draws. ``confusion``
        ``(J, K, K)`` replaces the reported confusion matrices of a model that has no :meth:`confusion`.
        """
        return {}

    def initial(self, data: Annotations) -> Tensor:
        """Return responsibilities to start from, ``(N, S)``.

        Defaults to the majority vote, which settles which class is which.
        """
        M = self.states_per_class(data)
        return data.majority() if M == 1 else data.majority().repeat_interleave(M, -1) / M

    def anchor(self, data: Annotations, parameters: Parameters | None = None) -> Tensor | None:
        """Return the share of each item's class that parameters are learned from whatever the posterior is; ``None`` for none.

        ``(N, K)``, not negative, with row sums of at most 1. Where the sum is ``b``, the item enters the likelihood with power
        ``1 - b``, and with power ``b`` as an item of known class, which the row distributes. It keeps the classes' meaning.
        Reported class probabilities and likelihoods are without it.

        Where ``data.anchor`` is given, another one that the annotations may support as well, ``None`` for none: EM then looks for
        a second solution with it, and warns if that explains the annotations about equally well.

        Where ``parameters`` are given too, EM has converged to them with ``data.anchor``. Then the anchor that they call for in
        its place is returned, or ``data.anchor`` itself. EM alternates between the two until they agree
        (:mod:`crowdppl.inference.engines.anchoring`).
        """
        return None

    # ------------------------------------------------------------------ faster, never different: optional

    def confusion(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``p(label = l | truth = s, worker j)``, ``(..., J, S, K)``, where a label depends on nothing else.

        ``(..., 1, S, K)`` where all workers share one table. Of the data, only sizes and worker features may be used. The result
        is not written to.
        """
        raise NotImplementedError

    def conjugate_counts(self, statistics: Statistics, data: Annotations) -> dict[str, Tensor]:
        """Return what expected counts add to the concentration of each Dirichlet or Beta site, by site name.

        Shapes are those of the concentrations, with the leading axes of the statistics; for a Beta site ``(..., 2)`` =
        (successes, failures). From these and the priors' own concentrations follow the M step, the Gibbs draw, the variational
        expectations, the guide and the log prior (:mod:`crowdppl.model.conjugacy`). Needs :meth:`confusion`; of the data, only
        sizes and worker features may be used. Sites that are left out are the business of :meth:`m_step` or of gradients.
        """
        raise NotImplementedError

    def log_likelihoods(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(labels of item i | truth = s)`` times the item's weight, ``(..., N, S)``, in memory of its own.

        For a model that knows a faster way than :meth:`confusion` or :meth:`emission`. Item weights come with
        ``data.weighted(...)``, ``data.weighted_votes`` and ``data.counts``.
        """
        raise NotImplementedError

    def log_truth(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(truth_i = s)``, ``(..., S)`` or ``(..., N, S)``. Defaults to the logits of :meth:`truth`."""
        return self.truth(parameters, data).logits

    # ------------------------------------------------------------------ what is not conjugate: optional

    def m_step(self, responsibility: Tensor, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return parameters that maximise the expected log joint plus log prior, given responsibilities ``(N, S)``.

        Responsibilities come multiplied by the items' multiplicities. ``parameters`` are the current ones, ``None`` at the start.
        Sites that are not returned are raised by gradients; at the start their first values may be returned as well. Sites that
        only the first M step learns are returned later as they are, and further starts of EM take them from the first.
        """
        raise NotImplementedError

    def m_step_of_coupled(self, expected: Any, data: Annotations, parameters: Parameters | None) -> Parameters:
        """Return what :meth:`m_step` returns, of a model with :meth:`coupling`, given what its ``smooth`` returns."""
        raise NotImplementedError

    def gibbs_step(self, truth: Tensor, parameters: Parameters, data: Annotations) -> Parameters:
        """Draw parameters from their conditional given truths ``(C, N)`` of ``C`` chains; every value leads with ``C``."""
        raise NotImplementedError

    def compiled_step(self, data: Annotations) -> CompiledStep | None:
        """Return the compiled form of :meth:`gibbs_step` and :meth:`m_step`; ``None`` where there is none.

        Of the library's own models: what is compiled for a family of models is in :mod:`crowdppl.kernels`. A model whose sites
        are all conjugate has one without this method.
        """
        return None

    def compiled_raters(self, data: Annotations) -> RaterForm | None:
        """Return what compiled draws around a point, and readings of draws, need of raters with thresholds; ``None`` elsewhere.

        Of the library's own models whose chains are not compiled.
        """
        return None

    def guide(self, data: Annotations, start: Parameters) -> Callable[..., Any]:
        """Return a Pyro guide of the sites, called with ``(data, index=None)``; ``start`` is a first point."""
        raise NotImplementedError

    def log_prior(self, parameters: Parameters, data: Annotations) -> Tensor:
        """Return ``log p(parameters)``, ``(...)``, on the scale of the sites' own values."""
        raise NotImplementedError

    def log_priors(self, parameters: Parameters, data: Annotations) -> Parameters:
        """Return the same for each site, ``(...)``, or ``(..., J)`` of sites of workers; without it the prior itself is run."""
        raise NotImplementedError

    def classifier_targets(self, responsibility: Tensor, data: Annotations) -> ClassifierTargets | None:
        """Return what a network that predicts the truth, and nothing else, learns by cross-entropy.

        Its part of the expected log joint is ``sum targets * log_softmax(network(features))``, so that an M step needs no more
        than that. ``None`` for gradients of all.
        """
        return None

    @property
    def engine_defaults(self) -> Mapping[str, Mapping[str, Any]]:
        """Options, by engine, whose defaults differ for this model, such as the schedule of its paper."""
        return {}

    def check_method(self, method: str, data: Annotations | None = None) -> str | None:
        """Return why an engine does not suit the model, or these data, in a sentence; ``None`` where it does."""
        return None

    def generative(self) -> AnnotationModel:
        """Return the model to simulate from: another one only where parts of the model are functions of the labels."""
        return self


def provides(model: AnnotationModel, method: str) -> bool:
    """Tell whether a model adds an optional method of :class:`AnnotationModel`."""
    return getattr(type(model), method) is not getattr(AnnotationModel, method)


def has_gibbs(model: AnnotationModel) -> bool:
    """Tell whether a model states how its parameters are drawn given the truths."""
    return provides(model, "gibbs_step") or (provides(model, "conjugate_counts") and not provides(model, "networks"))
