"""Wide tables with a consensus, dates, sums or a legend beside the workers, and what such tables may be instead."""

import pyarrow
import pyarrow.parquet
import pytest

import crowdppl
from crowdppl.data.readers import formats
from crowdppl.errors import DataError, silent


def read(folder, text, **options):
    path = folder / "x.csv"
    path.write_text(text)
    return crowdppl.read(path, "wide", **options)


def table(head, rows=10, values=lambda n, k: "ab"[n * (k + 1) % 3 % 2]):
    width = head.count(",")
    return (
        "\n".join([head, *(",".join([str(n), *(values(n, k) for k in range(width))]) for n in range(1, rows + 1))])
        + "\n"
    )


@pytest.mark.parametrize(
    "name", ["Konsens", "Endgültig", "gt", "Musterlösung", "Vérité", "mayoría", "Majorité", "consenso", "answer_key"]
)
def test_a_consensus_in_other_languages_is_no_worker(tmp_path, name):
    data = read(tmp_path, table(f"id,ann,bob,{name}"))
    assert data.workers.tolist() == ["ann", "bob"]
    assert any(f"truth={name!r} uses them as known truths" in note for note in data.notes)


@pytest.mark.parametrize("name", ["Konstantin", "Gita", "Maja", "Wahida", "Richard", "Vera", "Finn"])
def test_names_of_people_are_workers(tmp_path, name):
    assert read(tmp_path, table(f"id,ann,bob,{name}")).workers.tolist() == ["ann", "bob", name]


@pytest.mark.parametrize("names", [("AB", "GT", "KL"), ("ab", "sd", "kl"), ("Mv", "Cd", "Ef")])
def test_initials_that_are_a_short_name_of_something_else(tmp_path, names):
    data = read(tmp_path, table(f"id,{','.join(names)}"))
    assert data.workers.tolist() == sorted(names, key=names.index)
    assert any("read as workers; if" in note for note in data.notes)


@pytest.mark.parametrize("head", ["id,ann,bob,GT", "id,AB,KL,gt", "id,AB,GT", "id,ann,AB,KL,GT", "id,AB,KL,consensus"])
def test_short_names_beside_other_names_are_none_of_a_worker(tmp_path, head):
    names = head.split(",")[1:]
    other = {"GT", "gt", "consensus"}
    assert read(tmp_path, table(head)).workers.tolist() == [name for name in names if name not in other]


def test_completeness_of_forms_by_names_and_values(tmp_path):
    people = table("id,ann_complete,bob_complete,eve_complete")
    assert read(tmp_path, people).J == 3
    assert (
        read(tmp_path, people.replace("a\n", "0\n").replace(",a", ",0").replace(",b", ",1")).J == 3
    )  # there is no other
    for values in ("012", ("Complete", "Unverified", "Incomplete"), "2"):
        rows = "".join(f"{n},{'01'[n % 2]},{'01'[n % 3 % 2]},{values[n % len(values)]}\n" for n in range(1, 11))
        assert read(tmp_path, f"id,ann,bob,form_1_complete\n{rows}").workers.tolist() == ["ann", "bob"]
    rows = "".join(f"{n},a,b,b,x\n{n + 10},b,b,a,x\n" for n in range(1, 9))
    assert read(tmp_path, f"id,ann,bob,eve_complete,redcap_event_name\n{rows}").workers.tolist() == ["ann", "bob"]
    assert read(tmp_path, f"id,ann,bob,eve_complete,event\n{rows}").workers.tolist() == ["ann", "bob", "eve_complete"]


def test_cells_that_are_lists(tmp_path):
    given = [["x"], ["y"], ["x", "y"]]
    table = pyarrow.table({"id": ["a", "b", "c"], "ann": given, "bob": given[::-1]})
    pyarrow.parquet.write_table(table, tmp_path / "x.parquet")
    data = crowdppl.read(tmp_path / "x.parquet", "wide", several="sets")
    assert (data.N, data.J) == (6, 2)  # an item for each label of a set
    with pytest.raises(DataError, match="2 labels in one annotation"):
        crowdppl.read(tmp_path / "x.parquet", "wide")


def test_a_column_of_true_labels_has_one_note(tmp_path):
    text = table("id,ann,bob,gold")
    assert sum("'gold'" in note for note in read(tmp_path, text).notes) == 1
    (tmp_path / "two").mkdir()
    for name in "ab":
        (tmp_path / "two" / f"{name}.csv").write_text(text.replace("\n", f"\n{name}").removesuffix(name))
    assert sum("'gold'" in note for note in crowdppl.read(tmp_path / "two", "wide").notes) == 1
    rows = "".join(f"{n},{who},{'ab'[n % 2]},{'ab'[n % 2]}\n" for n in range(8) for who in "uv")
    (tmp_path / "y.csv").write_text(f"task,worker,label,gold\n{rows}")
    assert sum("'gold'" in note for note in crowdppl.read(tmp_path / "y.csv").notes) == 1


@pytest.mark.parametrize("date", ["2024-01-{:02d} 10:00:00", "{:02d}.01.2024", "1/{}/2024 9:05"])
def test_a_column_of_dates_is_no_worker(tmp_path, date):
    rows = "".join(f"{n},{date.format(n)},{'ab'[n % 2]},{'ab'[n % 3 % 2]}\n" for n in range(1, 9))
    assert read(tmp_path, f"id,seen,ann,bob\n{rows}").workers.tolist() == ["ann", "bob"]


def test_labels_that_are_dates_are_labels(tmp_path):
    rows = "".join(f"{n},2024-01-0{n % 2 + 1},2024-01-0{n % 3 % 2 + 1}\n" for n in range(1, 9))
    data = read(tmp_path, f"id,ann,bob\n{rows}")
    assert data.labels.tolist() == ["2024-01-01", "2024-01-02"]


@pytest.mark.parametrize(
    "line", ["Cohen's kappa,0.31,", "Krippendorff's alpha,,0.4", "Agreement (%),75,", "n = 10,,", "ICC,0.5,0.5"]
)
def test_coefficients_below_the_items_are_no_item(tmp_path, line):
    data = read(tmp_path, f"{table('id,ann,bob')}Sum,5,5\n{line}\n")
    assert (data.N, data.labels.tolist()) == (10, ["a", "b"])
    assert any("at the end are left out" in note for note in data.notes)


@pytest.mark.parametrize(
    "line",
    ["Alphabet,a,b", "pie,b,b", "n,a,b", "alpha,b,b", "Kappa Alpha Theta,a,a", "agreement letter,a,b", "north,a,a"],
)
def test_an_item_with_a_similar_name_is_kept(tmp_path, line):
    assert read(tmp_path, f"{table('id,ann,bob')}{line}\n").N == 11


def test_blank_rows_are_left_out_and_missing_items_are_not(tmp_path):
    text = table("id,ann,bob")
    data = read(tmp_path, f"{text},,\n11,a,b\n,,\n")
    assert data.N == 11
    assert any("2 blank rows are left out" in note for note in data.notes)
    with pytest.raises(DataError, match="item missing"):
        read(tmp_path, f"{text},a,b\n")


def test_a_title_above_a_wide_table(tmp_path):
    with pytest.raises(DataError, match="the first line has a single name, 'Results of May', for 3 columns"):
        read(tmp_path, f"Results of May,,\n{table('id,ann,bob')}")
    assert read(tmp_path, table(",ann,bob")).workers.tolist() == ["ann", "bob"]  # an index without a name


def test_a_first_column_of_labels_is_asked_about(tmp_path):
    text = "".join(f"{'ab'[n % 2]},{'ab'[n % 3 % 2]}\n" for n in range(9))
    with pytest.raises(
        DataError, match="if 'ann', the first column, is that of a worker, add a column with the number"
    ):
        read(tmp_path, f"ann,bob\n{text}")
    with pytest.raises(
        DataError, match=r"repeated; keep one row per item, or join the columns that identify an item together to one$"
    ):
        read(tmp_path, f"{table('id,ann,bob')}3,a,b\n")


CLASSES = {"one-hot": (1, 0, 0), "votes": (3, 1, 1)}


@pytest.mark.parametrize("kind", CLASSES)
def test_rows_of_one_sum_may_be_of_classes(tmp_path, kind):
    counts = CLASSES[kind]
    text = table("id,pos,neg,neutral", values=lambda n, k: str(counts[(n + n // 3 + k) % 3]))
    data = read(tmp_path, text)
    assert any(f"have the sum {sum(counts)}" in note and "from_counts" in note for note in data.notes)
    text = text.replace("\n10,", "\n10,1,1,1\n11,")
    assert not any("have the sum" in note for note in read(tmp_path, text).notes)


def test_a_class_without_a_vote(tmp_path):
    def votes(last):
        return table("id,cat,dog,fox", values=lambda n, k: last(n) if k == 2 else str((1 + n % 3, 3 - n % 3)[k]))

    assert any(
        "have the sum 4" in note and "'cat', 'dog', 'fox' are classes" in note
        for note in read(tmp_path, votes(lambda n: "0")).notes
    )
    for last in (lambda n: "2", lambda n: str(n % 2)):
        assert not any("have the sum" in note for note in read(tmp_path, votes(last)).notes)


def test_a_legend_beside_the_table_is_asked_about(tmp_path):
    rows = [
        f"{n},{'ab'[n % 2]},{'ab'[n % 3 % 2]},,{['a', 'b', ''][min(n - 1, 2)]},{['yes', 'no', ''][min(n - 1, 2)]}"
        for n in range(1, 9)
    ]
    data = read(tmp_path, "\n".join(["id,ann,bob,,Legend,", *rows]))
    assert any("'Legend' to the right of a blank column is read as workers" in note for note in data.notes)
    assert not any("to the right" in note for note in read(tmp_path, table("id,ann,bob,cy,dan")).notes)


def test_columns_that_look_like_items_are_asked_about(tmp_path):
    data = read(tmp_path, table("record_id,img1,img2,img3"))
    assert any("look like items; if each row is of a worker, transpose" in note for note in data.notes)
    for head in ("id,1,2,3", "id,ann1,ann2,ann3", "image,rater_1,rater_2"):
        assert not any("look like items" in note for note in read(tmp_path, table(head)).notes)


def test_several_labels_are_joined_on_request(tmp_path):
    text = table("id,ann,bob", values=lambda n, k: ["x;y", "x", "y;x"][(n + k) % 3])
    with pytest.raises(DataError, match="the same set"):
        read(tmp_path, text)
    assert read(tmp_path, text, several="join").labels.tolist() == ["x", "x;y"]


LIME = "{},{},3,en,77,A1,A2,A{}\n"


@pytest.mark.parametrize(
    "head",
    [
        "id,submitdate,lastpage,startlanguage,seed,img[SQ001],img[SQ002],img[SQ003]",
        "Response ID,Date submitted,Last page,Start language,Seed,Photo one?,Photo two?,Photo three?",
    ],
)
def test_surveys_of_limesurvey(tmp_path, head):
    path = tmp_path / "x.csv"
    path.write_text(f"{head}\n" + "".join(LIME.format(n, f"2024-01-0{n} 10:00:00", n % 2 + 1) for n in range(1, 5)))
    assert formats.sniff(path) == "forms"
    data = crowdppl.read(path)
    assert (data.N, data.J, data.labels.tolist()) == (3, 4, ["A1", "A2"])
    assert data.timestamp is not None


def test_a_language_alone_is_no_survey(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(
        "id,startlanguage,ann,bob\n" + "".join(f"{n},en,{'xy'[n % 2]},{'xy'[n % 3 % 2]}\n" for n in range(8))
    )
    assert formats.sniff(path) == "long"
    with pytest.raises(DataError, match="if each worker has a column, name format='wide'"):
        crowdppl.read(path)


def test_boxes_of_a_form(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(
        'Timestamp,Name,One,Two\n2024/01/01 10:00:00,ann,"cat, dog",dog\n2024/01/01 10:10:00,bob,"dog, cat",cat\n'
    )
    with pytest.raises(DataError, match="the same set"):
        crowdppl.read(path)
    assert crowdppl.read(path, several="join").labels.tolist() == ["cat", "cat;dog", "dog"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (",i0,i1,i2,i3\nann,x,y,x,x\nbob,x,x,x,y\ncem,y,x,x,x\n", "these look like items; if each row is of a worker, transpose"),
        ("item,ann 2024-01-01,ann 2024-02-01,bob 1.2.2024\n1,x,y,x\n2,y,y,y\n3,x,x,y\n", "end in a date, such as 'ann 2024"),
    ],
)  # fmt: skip
def test_rows_and_columns_in_another_part(tmp_path, text, said):
    assert any(said in note for note in read(tmp_path, text).notes)


@pytest.mark.parametrize("name", ["sentence", "Nr", "number", "digit", "word"])
@pytest.mark.parametrize("items", ["12345", "xyz", ("cat", "dog", "cow")])
def test_items_with_the_names_of_labels(tmp_path, name, items):
    rows = [f"{one},{items[n - 1]},{one},{items[n - 2]}" for n, one in enumerate(items)]
    notes = read(tmp_path, "\n".join([f"{name},ann,bob,cem", *rows])).notes
    assert not any("that of a worker" in note for note in notes)
    with pytest.raises(DataError, match=f"if '{name}', the first column, is that of a worker"):
        read(tmp_path, "\n".join([f"{name},ann,bob,cem", *rows, rows[0]]))


@pytest.mark.parametrize(
    "text",
    [
        ",a1,a2,a3,a4\nann,x,y,x,x\nbob,x,x,x,y\ncem,y,x,x,x\n",
        ",i0,i1\na,x,y\nb,x,x\nc,y,x\n",
        *(f",{who}1,{who}2,{who}3,{who}4\none,x,y,x,x\ntwo,x,x,x,y\ncat,y,x,x,x\n" for who in "dstx"),
        "item,gpt-4o-2024-05-13,gpt-4o-2024-08-06\n1,x,y\n2,y,y\n3,x,x\n",
        "item,claude-2024-05-13,claude-2024-08-06\n1,x,y\n2,y,y\n3,x,x\n",
        "item,ann,bob,cem\nx,y,x,x\ny,y,y,x\n",
        "item,ann 2024-01-01,bob 2024-01-01,cem 2024-01-02\n1,x,y,x\n2,y,y,y\n3,x,x,y\n",
    ],
)
def test_rows_and_columns_in_their_part(tmp_path, text):
    assert not any(
        "transpose" in note or "are labels" in note or "a date" in note for note in read(tmp_path, text).notes
    )


@pytest.mark.parametrize(
    "word", ["#NV", "#WERT!", "#BEZUG!", "#VALEUR!", "#\u00a1REF!", "#\u0417\u041d\u0410\u0427!", "#N/B", "#WAARDE!"]
)
def test_errors_of_spreadsheets_in_other_languages(tmp_path, word):
    text = "item,ann,bob,cem\n" + "".join(f"{n},x,y,{word if n == 1 else 'x'}\n" for n in range(4))
    with silent():
        assert any(f"{word!r} (1) taken for a class" in note for note in read(tmp_path, text).notes)
        assert not any("taken for a class" in note for note in read(tmp_path, text.replace(word, "#Wow!")).notes)
