"""Draw the pictures of the README and of docs/honest-intervals.md: ``python docs/pictures.py``."""

import warnings
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import crowdppl
from crowdppl import criticism, datasets

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
    names = [f"{row.worker}  ({row.judgements})" for row in workers.itertuples()]
    left.set(yticks=place, yticklabels=names, xlim=(0.4, 1), ylim=(-0.6, len(place) - 0.4))
    left.set(xlabel="probability of the right label", ylabel="anaesthetist (judgements)")
    left.set_title("Who is good: accuracy, 89% intervals", loc="left", fontsize=11)

    matrix = posterior.confusion(2).pivot(index="truth", columns="label", values="probability")
    middle.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(matrix.to_numpy()):
        middle.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.5 else INK)
    middle.set(xticks=range(4), yticks=range(4), xticklabels=matrix.columns, yticklabels=matrix.index)
    middle.set(xlabel="label given", ylabel="true class")
    middle.set_title("How anaesthetist 2 errs", loc="left", fontsize=11)

    truth = posterior.truth().sort_values("probability").head(8).iloc[::-1]
    edge = np.zeros(len(truth))
    for k, shade in zip(posterior.labels, ("#dbe9f0", "#8fbcd0", "#3d87a6", "#163f52"), strict=True):
        share = truth[f"p_{k}"].to_numpy()
        right.barh(range(len(truth)), share, left=edge, color=shade, label=f"class {k}", height=0.7)
        edge += share
    right.set(yticks=range(len(truth)), yticklabels=[f"patient {task}" for task in truth["task"]], xlim=(0, 1))
    right.set(xlabel="probability of each class")
    right.set_title("What is true: the least certain of 45", loc="left", fontsize=11)
    right.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, fontsize=8, columnspacing=1)

    for axes in (left, middle, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK)
    left.grid(axis="x", color=SOFT, lw=0.6)
    figure.tight_layout(w_pad=2)
    HERE.mkdir(exist_ok=True)
    figure.savefig(HERE / "anaesthesia.png", dpi=110)


def honest() -> None:
    """Workers of three public sets: share of right judgements, and intervals of it, as published and ours."""
    figure, rows = plt.subplots(2, 3, figsize=(12.5, 6.2), sharex="col")
    for name, column in zip(("dog", "rte", "zencrowd-us"), rows.T, strict=True):
        data, truth = datasets.public(name)
        for axes, independent in zip(column, (True, False), strict=True):
            posterior = crowdppl.fit(
                data, "item-subtypes", method="gibbs", seed=0, num_samples=250, independent=independent
            )
            found = criticism.coverage(posterior, truth)
            table = found.workers.sort_values("right").reset_index(drop=True)
            held = table["share_right_covers"].to_numpy()
            for inside, shade in ((False, MISS), (True, ACCENT)):
                part = table[held == inside]
                axes.vlines(
                    part.index, part["share_right_low"], part["share_right_high"], color=shade, lw=2, alpha=0.55
                )
            axes.plot(table.index, table["right"], ".", color=INK, ms=4)
            axes.set_title(
                f"{name}, {'as published' if independent else 'ours'}: {found.share_right:.0%} hold",
                loc="left",
                fontsize=11,
            )
            axes.set(ylim=(0, 1.02), ylabel="share of right judgements" if axes in rows[:, 0] else "")
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(axis="y", color=SOFT, lw=0.6)
        column[1].set_xlabel(f"{len(table)} workers with 20 judgements or more")
    figure.tight_layout()
    figure.savefig(HERE / "honest-intervals.png", dpi=110)


def page() -> None:
    """Photograph the report of the anaesthesia table in Chromium."""
    import tempfile

    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    from crowdppl import report

    posterior = crowdppl.fit(datasets.anaesthesia(), "dawid-skene", method="gibbs", seed=0)
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
        path = report.write(posterior, Path(folder) / "report.html", {"input": {"file": "anaesthesia.csv"}})
        browser = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
        browser.set_window_size(1100, 900)
        browser.get(path.as_uri())
        browser.find_element("css selector", "#workers-table tbody button").click()
        browser.execute_script("document.querySelector('#workers').scrollIntoView()")
        browser.save_screenshot(str(HERE / "report.png"))
        browser.quit()


if __name__ == "__main__":
    warnings.simplefilter("ignore", crowdppl.CrowdpplWarning)
    anaesthesia()
    honest()
    page()
