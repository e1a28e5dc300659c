"""Files of boxes, exports of REDCap, pages with a table, and files compressed twice: one line that says what to do."""

import gzip
import json
import zipfile

import pytest

import crowdppl
from crowdppl.data.readers.file_kinds import other_kind
from crowdppl.errors import CrowdpplError, silent

VIA = "filename,region_count,region_shape_attributes,region_attributes\n" + 'a.jpg,1,"{""name"":""rect""}","{}"\n' * 2
VOC = "<annotation><folder>x</folder><filename>a.jpg</filename><object><name>dog</name></object></annotation>"
BOX = {"label": "dog", "coordinates": {"x": 1, "y": 2, "width": 3, "height": 4}}


def refusal(path, **options):
    with pytest.raises(CrowdpplError) as caught:
        crowdppl.read(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("a.json", json.dumps([{"image": "a.jpg", "annotations": [BOX]}] * 2), "polygons of CreateML under 'annotations'"),
        ("a.odgt", '{"ID": "a", "gtboxes": [{"tag": "person", "hbox": [1, 2, 3, 4]}]}\n' * 2, "under 'gtboxes'"),
        ("a.txt", "0 0.5 0.5 0.2 0.3\n1 0.3 0.2 0.1 1\n", "boxes of YOLO"),
        ("a.txt", f"Car 0.00 0 -1.58{' 5.0' * 11}\n", "boxes of KITTI"),
        ("a.txt", "1,1,794.27,247.59,71.245,174.88,-1,-1,-1,-1\n" * 2, "the MOT challenge"),
        ("a.csv", "a.jpg,1,2,30,40,dog\nb.jpg,1,2,30,40,cat\n", "file, corners and class"),
        ("a.csv", VIA, "'region_shape_attributes', 'region_attributes' are columns of boxes"),
        ("a.csv", "filename,class,xmin,ymin,xmax,ymax\na.jpg,dog,1,2,3,4\n", "'xmin', 'ymin', 'xmax', 'ymax' are columns"),
        ("a.csv", "ImageID,LabelName,XMin,XMax,YMin,YMax\na,dog,1,2,3,4\n", "'XMin', 'XMax', 'YMin', 'YMax' are columns"),
        ("a.xml", VOC, "Pascal VOC"),
        ("v/a.xml", VOC, "Pascal VOC"),
    ],
)  # fmt: skip
def test_boxes(name, content, what, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    inputs = [path]
    if "/" in name:
        with zipfile.ZipFile(tmp_path / "v.zip", "w") as archive:
            archive.writestr("a.xml", content)
        inputs = [path.parent, tmp_path / "v.zip"]
    for given in inputs:
        assert what in refusal(given)
        assert "a row for each label that somebody gave to an image" in refusal(given)


@pytest.mark.parametrize(
    "text",
    [
        "0 1 0 1 1\n1 1 0 0 1\n0 0 1 1 0\n1 0 0 1 1\n",
        "".join(f"{name} {' '.join(str(1 + (n * k) % 5) for k in range(14))}\n" for n, name in enumerate("xyz")),
        "a.png,1,4,2,5,nice\nb.png,2,3,4,4,nice\n",
        "a.png,10,40,60,80,nice\nb.png,20,30,40,50,nice\nc.png,20,30,40,50,nice\nd.png,90,30,40,50,nice\n",
    ],
)
def test_grades_are_no_boxes(text, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(text)
    assert other_kind(text.encode(), path) is None
    with silent():
        assert text.count("\n") == crowdppl.read(path, format="mace").N


def test_boxes_beside_workers_and_numbers_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("task,worker,label,xmin,ymin,xmax,ymax\na,u,x,1,2,3,4\na,v,y,1,2,3,4\n")
    assert crowdppl.read(path).J == 2
    path.write_text("image,annotator,class,xmin,ymin,xmax,ymax\na,u,x,1,2,3,4\n")
    assert "name the task column with task=" in refusal(path)
    path.write_text("1,0,1,-1,-1,-1\n0,1,1,-1,-1,-1\n1,1,-1,1,0,-1\n")
    assert crowdppl.read(path, format="mace").N == 3


HEAD = "record_id,redcap_event_name,redcap_repeat_instrument,redcap_repeat_instance"


@pytest.mark.parametrize(
    ("header", "row", "advice"),
    [
        (f"{HEAD},diagnosis,r_complete", "1,e,r,1,benign,2", "worker='redcap_repeat_instance', task='record_id' and label="),
        ("record_id,redcap_event_name,diagnosis", "1,e,benign", "unless 'redcap_event_name' does"),
        (f"{HEAD},image_reader,diagnosis", "1,e,r,1,ann,benign", "use worker='image_reader', task='record_id' and label="),
        ("record_id,redcap_survey_identifier,diagnosis", "1,e,benign", "does not say who rated"),
        (f"{HEAD},diagnosis", "7--1,e,r,1,benign", "records such as '7--1' end in the number of the person"),
    ],
)  # fmt: skip
def test_redcap(header, row, advice, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{header}\n{row}\n{row}\n")
    assert "an export of REDCap" in refusal(path)
    assert advice in refusal(path)


@pytest.mark.parametrize("ends", ["r1 r2", "reader1 reader2 reader3", "rater_a rater_b"])
def test_redcap_with_a_field_for_each_rater(ends, tmp_path):
    names = [f"diag_{end}" for end in ends.split()]
    path = tmp_path / "a.csv"
    rows = [f"{n},e,{','.join('xy'[(n + k) // 2 % 2] for k, _ in enumerate(names))}" for n in range(9)]
    path.write_text("\n".join([f"record_id,redcap_event_name,{','.join(names)}", *rows]))
    assert "is the field of a rater, name format='wide'" in refusal(path)
    with silent():
        assert crowdppl.read(path, format="wide").workers.tolist() == names


def test_redcap_without_fields_of_labels(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("record_id,redcap_event_name,r_complete\n1,e,2\n2,e,2\n")
    assert "an export of REDCap without a field of labels" in refusal(path)
    path.write_text("record_id,redcap_event_name,fever,diag_1\n1,e,x,a\n2,e,y,b\n")
    assert "unless 'redcap_event_name' does" in refusal(path)


def test_boxes_of_workers_and_answers_that_are_called_box(tmp_path):
    path = tmp_path / "a.json"
    box = {"by": "u", "annotator": "u", "label": "x", "bbox": [1, 2, 3, 4]}
    path.write_text(json.dumps([{"name": f"i{n}", "marks": [box, box]} for n in range(3)]))
    assert "no labels of whole items, though they name workers" in refusal(path)
    for held in ("left", 3):
        path.write_text(json.dumps([{"name": f"i{n}", "answers": [{"who": "u", "box": held}]} for n in range(3)]))
        assert "boxes" not in refusal(path)


def test_redcap_with_instances_as_raters(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(f"{HEAD},diagnosis\n1,e,,,\n1,e,r,1,benign\n1,e,r,2,malignant\n2,e,r,1,benign\n2,e,r,2,benign\n")
    with silent():
        data = crowdppl.read(path, worker="redcap_repeat_instance", task="record_id", label="diagnosis")
    assert (data.N, data.J, len(data.item)) == (2, 2, 4)


def test_a_page_with_a_table_and_a_file_compressed_twice(tmp_path):
    page = tmp_path / "a.xls"
    page.write_text("<html><table><tr><th>task</th></tr><tr><td>a</td></tr></table></html>")
    assert "a web page with a table, as some programs write under .xls" in refusal(page)
    page.write_text("<html><form><table><tr><td><input name='user'></td></tr></table></form></html>")
    assert "downloaded without signing in" in refusal(page)
    twice = tmp_path / "a.csv.gz"
    twice.write_bytes(gzip.compress(gzip.compress(b"task,worker,label\na,b,c\n")))
    assert "is compressed twice" in refusal(twice)
