"""Draw the pictures of the README and of docs/guide/calibrated-intervals.md: ``python docs/pictures.py``."""

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import crowdppl
from crowdppl import criticism
from crowdppl.data import datasets

HERE = Path(__file__).parent / "images"
INK, ACCENT, SOFT, MISS = "#22303c", "#1f6f8b", "#c9d6df", "#d1495b"


def anaesthesia() -> None:
    posterior = crowdppl.fit(datasets.anaesthesia(), "dawid-skene", method="gibbs", seed=0)
    plt.rcParams.update({"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK})
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12.5, 3.9), width_ratios=[1.15, 1, 1.25])

    workers = posterior.workers()
    place = np.arange(len(workers))[::-1]
    left.hlines(place, workers["accuracy_low"], workers["accuracy_high"], color=ACCENT, lw=5, alpha=0.35)
    left.plot(workers["accuracy"], place, "o", color=ACCENT, ms=8)
    names = [f"{row.worker}  ({row.annotations})" for row in workers.itertuples()]
    left.set(yticks=place, yticklabels=names, xlim=(0.4, 1), ylim=(-0.6, len(place) - 0.4))
    left.set(xlabel="probability of the correct label", ylabel="anaesthetist (annotations)")
    left.set_title("Accuracy of each worker, 89% intervals", loc="left", fontsize=11)

    matrix = posterior.confusion(2).pivot_table(index="truth", columns="label", values="probability")
    middle.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(matrix.to_numpy()):
        middle.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.5 else INK)
    middle.set(xticks=range(4), yticks=range(4), xticklabels=matrix.columns, yticklabels=matrix.index)
    middle.set(xlabel="label given", ylabel="true class")
    middle.set_title("Confusion matrix of anaesthetist 2", loc="left", fontsize=11)

    truth = posterior.truth().sort_values("probability").head(8).iloc[::-1]
    edge = np.zeros(len(truth))
    for k, shade in zip(posterior.labels, ("#dbe9f0", "#8fbcd0", "#3d87a6", "#163f52"), strict=True):
        share = truth[f"p_{k}"].to_numpy()
        right.barh(range(len(truth)), share, left=edge, color=shade, label=f"class {k}", height=0.7)
        edge += share
    right.set(yticks=range(len(truth)), yticklabels=[f"patient {task}" for task in truth["task"]], xlim=(0, 1))
    right.set(xlabel="probability of each class")
    right.set_title("True class: the least certain of 45", loc="left", fontsize=11)
    right.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, fontsize=8, columnspacing=1)

    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK)
    left.grid(axis="x", color=SOFT, lw=0.6)
    figure.tight_layout(w_pad=2)
    HERE.mkdir(exist_ok=True)
    figure.savefig(HERE / "anaesthesia.png", dpi=110)


def calibrated_intervals() -> None:
    """Workers of three public sets: share of correct annotations, and intervals of it, as published and ours."""
    figure, rows = plt.subplots(2, 3, figsize=(12.5, 6.2), sharex="col")
    for name, column in zip(("dog", "rte", "zencrowd-us"), rows.T, strict=True):
        data, truth = datasets.public(name)
        for axes, independent in zip(column, (True, False), strict=True):
            posterior = crowdppl.fit(
                data, "item-subtypes", method="gibbs", seed=0, num_samples=250, independent=independent
            )
            coverage = criticism.coverage(posterior, truth)
            table = coverage.workers.sort_values("correct").reset_index(drop=True)
            held = table["share_correct_covers"].to_numpy()
            for inside, shade in ((False, MISS), (True, ACCENT)):
                part = table[held == inside]
                axes.vlines(
                    part.index, part["share_correct_low"], part["share_correct_high"], color=shade, lw=2, alpha=0.55
                )
            axes.plot(table.index, table["correct"], ".", color=INK, ms=4)
            axes.set_title(
                f"{name}, {'as published' if independent else 'ours'}: {coverage.share_correct:.0%} cover",
                loc="left",
                fontsize=11,
            )
            axes.set(ylim=(0, 1.02), ylabel="share of correct annotations" if axes in rows[:, 0] else "")
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color=SOFT, lw=0.6)
        column[1].set_xlabel(f"{len(table)} workers with 20 annotations or more")
    figure.tight_layout()
    figure.savefig(HERE / "calibrated-intervals.png", dpi=110)


def tickets() -> tuple[pd.DataFrame, dict[str, str]]:
    """Simulate support tickets labelled by good workers, one who takes complaints for billing, a fast and an adversarial one."""
    rng = np.random.default_rng(3)
    classes = ["Complaint", "Billing", "Technical", "Praise", "Cancellation"]
    truth = rng.choice(5, 400, p=[0.25, 0.3, 0.25, 0.1, 0.1])
    said = [
        "I waited two weeks for an answer.",
        "Why is there a fee on my bill?",
        "The app crashes when I open an invoice.",
    ]
    said += ["Quick and friendly support, thank you!", "Please cancel my contract."]
    rows = []

    def take(i: int, worker: str, label: int, seconds: float) -> None:
        rows.append((f"T-{1000 + i}", worker, classes[label], seconds * rng.lognormal(0, 0.4)))

    for i in range(400):
        for name in rng.choice(["Ann", "Carla", "Deniz", "Emeka", "Fatima", "Goran"], 3, replace=False):
            technical = truth[i] == 2 and rng.random() < 0.3
            take(i, name, 1 if technical else truth[i] if rng.random() < 0.88 else rng.integers(5), 10)
    for i in rng.choice(400, 180, replace=False):
        complaint = truth[i] == 0 and rng.random() < 0.72
        take(i, "Bob", 1 if complaint else truth[i] if rng.random() < 0.88 else rng.integers(5), 9)
    for i in rng.choice(400, 150, replace=False):
        take(i, "speedy_77", rng.integers(5), 1.7)
    for i in rng.choice(400, 44, replace=False):
        take(i, "Mallory", (truth[i] + rng.integers(1, 5)) % 5, 10)
    frame = pd.DataFrame(rows, columns=["task", "worker", "label", "seconds"])
    return frame, {f"T-{1000 + i}": said[k] for i, k in enumerate(truth)}


def page() -> None:
    """Take a picture of the first screen of a report in Chromium."""
    import tempfile

    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    from crowdppl import report

    frame, texts = tickets()
    data = crowdppl.Annotations.from_frame(frame, seconds="seconds")
    posterior = crowdppl.fit(data, "dawid-skene", method="gibbs", seed=0)
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--force-prefers-reduced-motion",
    ):
        options.add_argument(flag)
    with tempfile.TemporaryDirectory() as folder:
        path = report.write(posterior, Path(folder) / "report.html", title="Support tickets", text=texts, cost=0.08)
        browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        browser.set_window_size(1180, 1180)
        browser.get(path.as_uri())
        browser.save_screenshot(str(HERE / "report.png"))
        browser.quit()


if __name__ == "__main__":
    warnings.simplefilter("ignore", crowdppl.CrowdpplWarning)
    anaesthesia()
    calibrated_intervals()
    page()
