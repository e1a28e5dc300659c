"""Features of tokens: codes of a classifier, their part in the posterior, and what they are worth."""

import numpy as np
import pandas as pd
import pytest
import torch
from catalog import SHORT, quiet_fit
from token_crowds import BIO

import crowdppl
from crowdppl.data.sequences import Tags
from crowdppl.errors import silent
from crowdppl.inference.evaluate import item_log_likelihood
from crowdppl.model.bound import bind
from crowdppl.model.chains import smooth
from crowdppl.model.class_scores import BOUNDS, PENALTIES, codes, learned, number_of_codes
from crowdppl.model.networks import Standardise
from crowdppl.model.program import prior_draws
from crowdppl.model.weighted_votes import weighted_votes
from crowdppl.models import SequentialWorkers

# Probabilities of a token's label given that of the token before.
NEXT = np.array(
    [
        [0.05, 0.05, 0.3, 0, 0.6],
        [0.05, 0.05, 0, 0.3, 0.6],
        [0.05, 0.05, 0.2, 0, 0.7],
        [0.05, 0.05, 0, 0.2, 0.7],
        [0.1, 0.1, 0, 0, 0.8],
    ]
)


def crowd(sentences=60, length=12, seed=0, signal=1.5):
    """Return labels by two of eight workers a sentence, the truth, and six features with a mean for each class."""
    rng = np.random.default_rng(seed)
    accuracy, means = rng.uniform(0.5, 0.8, 8), rng.normal(size=(5, 6)) * signal
    rows, truth, features = [], {}, {}
    for sentence in range(sentences):
        state, chosen = 4, rng.choice(8, 2, replace=False)
        for place in range(length):
            state, task = rng.choice(5, p=NEXT[state]), f"{sentence}:{place}"
            truth[task], features[task] = BIO[state], means[state] + rng.normal(size=6)
            for worker in chosen:
                given = state if rng.random() < accuracy[worker] else rng.choice(5)
                rows.append((sentence, place, task, f"w{worker}", BIO[given]))
    frame = pd.DataFrame(rows, columns=["sentence", "position", "task", "worker", "label"])
    return frame, pd.Series(truth), pd.DataFrame(features).T


def tokens(frame, features=None):
    return crowdppl.Annotations.from_frame(
        frame, sequence="sentence", position="position", labels=BIO, features=features
    )


def span_f1(posterior, truth, data):
    """Return the F1 of the spans of the most probable labels."""
    tags, number = Tags.of(data.labels), {label: n for n, label in enumerate(data.labels)}
    given = posterior.truth().set_index("task")["label"]
    ours, true = (
        {tuple(span) for span in tags.spans(labels[data.items].map(number).to_numpy(), data.following.numpy()).tolist()}
        for labels in (given, truth)
    )
    return 2 * len(ours & true) / (len(ours) + len(true))


def test_features_find_more_spans_and_random_ones_change_nothing():
    frame, truth, features = crowd()
    noise = pd.DataFrame(np.random.default_rng(1).normal(size=features.shape), index=features.index)
    scores = []
    for some in (None, features, noise):
        data = tokens(frame, some)
        with silent():
            posterior = crowdppl.fit(data, seed=0)
        scores.append((span_f1(posterior, truth, data), posterior.truth()))
    (without, plain), (with_them, _), (_, random) = scores
    assert with_them > without + 0.1
    # The steps of EM differ, by one site more; where it converges they end in the same place.
    assert (plain["probability"] - random["probability"]).abs().max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gibbs", "svi", "nuts"])
def test_all_engines_read_features(method):
    options = {
        "gibbs": {"chains": 2, "warmup": 50, "num_samples": 100},
        "svi": {"max_iter": 300},
        "nuts": {"chains": 1, "warmup": 20, "num_samples": 20, "max_tree_depth": 4},
    }[method]
    frame, truth, features = crowd(20)
    scores = []
    for some in (None, features):
        data = tokens(frame, some)
        with silent():
            posterior = crowdppl.fit(data, method=method, seed=0, **options)
        scores.append(span_f1(posterior, truth, data))
    assert scores[1] > scores[0] + 0.05


def test_codes_are_one_more_observation():
    frame, _, features = crowd(8)
    data = tokens(frame, features)
    model = bind(SequentialWorkers(), data)
    arranged = model.expand(model.with_learned_scores(data))
    assert arranged.class_scores is not None
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parameters = {name: value[0] for name, value in prior_draws(model, arranged, 1).items()}
    chain = model.model.coupling(parameters, arranged)
    labels = model.log_likelihoods(parameters, arranged)
    code = codes(arranged.class_scores)
    by_hand = labels + parameters["feature_emission"].log()[:, code].T
    given = smooth(labels, chain, arranged)
    wanted = smooth(by_hand, chain._replace(observed=None), arranged)
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other)
    # Gibbs draws and expected counts count the same tokens.
    assert model.item_log_joint(parameters, arranged).logsumexp(-1).sum().item() == pytest.approx(
        wanted.log_likelihood.sum().item()
    )


def test_the_likelihood_of_labels_is_that_given_the_codes():
    """Sums over all paths of three tokens, by enumeration."""
    frame, _, features = crowd(30, length=3)
    data = tokens(frame, features)
    model = bind(SequentialWorkers(), data)
    arranged = model.expand(model.with_learned_scores(data))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        parameters = {name: value[0] for name, value in prior_draws(model, arranged, 1).items()}
    labels, chain = model.log_likelihoods(parameters, arranged), model.model.coupling(parameters, arranged)
    code = parameters["feature_emission"].log()[:, codes(arranged.class_scores)].T
    paths = torch.cartesian_prod(*[torch.arange(5)] * 3)
    moves = chain.start[paths[:, 0]] + chain.moves[paths[:, :-1], paths[:, 1:]].sum(-1)

    def sequence(values):
        return torch.logsumexp(moves + values[:3].gather(1, paths.T).sum(0), 0)

    wanted = sequence(labels + code) - sequence(code)
    given = item_log_likelihood(model, parameters, arranged)
    assert given[:3].sum().item() == pytest.approx(wanted.item(), rel=1e-10)
    with silent():
        posterior = crowdppl.fit(data, method="gibbs", chains=1, warmup=5, num_samples=5, seed=0)
    values = {name: torch.from_numpy(posterior.tree["posterior"][name].values[0, 3]) for name in parameters}
    stored = posterior.tree["log_likelihood"]["labels"].values[0, 3]
    np.testing.assert_allclose(stored, item_log_likelihood(model, values, arranged), rtol=1e-8)


def test_features_that_say_nothing_leave_no_trace():
    frame, _, features = crowd()
    noise = pd.DataFrame(np.random.default_rng(1).normal(size=features.shape), index=features.index)
    with silent():
        named = crowdppl.fit(tokens(frame, noise), "sequential-workers", method="em", num_samples=5, seed=0)
        plain = crowdppl.fit(tokens(frame), "sequential-workers", method="em", num_samples=5, seed=0)
    assert "left out" in " ".join(named.notes)
    assert named.info["reads"] == {}
    assert named.truth().equals(plain.truth())
    assert "feature_emission" not in named.tree["posterior"]


def test_codes_name_the_class_that_gains_most():
    scores = torch.tensor([[0.0, 0.01], [0.2, -0.2], [0.1, 0.9]]).double()
    assert codes(scores).tolist() == [0, 2, len(BOUNDS) + 4]
    assert number_of_codes(2) == 1 + 2 * len(BOUNDS)


def test_scores_are_those_of_ridge_regressions_on_other_folds():
    frame, _, features = crowd(20)
    data = tokens(frame, features)
    votes, x = weighted_votes(data).double(), Standardise(data.features.double())(data.features.double())
    y = votes - votes.mean(0)
    fold = data.sequence * 10 // 20
    assert fold.unique().tolist() == list(range(10))
    errors = []
    for penalty in PENALTIES:
        wanted = torch.zeros_like(y)
        for number in range(10):
            own = fold == number
            mean = y[~own].mean(0)
            gram = x[~own].T @ x[~own] + data.N * penalty * torch.eye(6).double()
            wanted[own] = mean + x[own] @ torch.linalg.solve(gram, x[~own].T @ y[~own])
        errors.append((float((y - wanted).square().sum()), wanted))
    best = min(errors, key=lambda pair: pair[0])[1]
    torch.testing.assert_close(learned(data).scores, best, rtol=1e-8, atol=1e-10)


def test_predictions_read_features_of_new_tokens():
    frame, truth, features = crowd(40)
    data = tokens(frame, features)
    posterior = quiet_fit(data, method="em", **SHORT["em"])
    new = features.sample(50, random_state=0).rename(index="new {}".format)
    table = crowdppl.predict(posterior, data.unseen(new)).set_index("task")
    known = truth.rename(index="new {}".format)[new.index]
    outside = table["p_O"][known == "O"].mean()
    assert outside > table["p_O"][known != "O"].mean() + 0.2
