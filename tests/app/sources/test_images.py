"""Images: folders named by class, or a column of paths, of every size and mode; broken ones are left out."""

import os

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from test_formats import refused, run

from labelfold.app.io import read_model, read_table

pytestmark = pytest.mark.usefixtures("quick_comparisons")
NAMES = ["zero", "one", "two"]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(n_class=3, return_X_y=True)
    return np.round(X[:150] * 255 / 16).astype(np.uint8).reshape(-1, 8, 8), y[:150]


@pytest.fixture
def folder(digits, tmp_path):
    """Every third image is in a folder named by its class."""
    images, y = digits
    for i, (image, label) in enumerate(zip(images, y, strict=True)):
        place = tmp_path / "digits" / (NAMES[label] if i % 3 == 0 else "unlabelled")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{i:03d}.png")
    return tmp_path / "digits"


def number(name):
    return int(name.split("/")[-1].split(".")[0])


def test_a_folder_of_folders(folder, digits):
    images, y = digits
    table = read_table(folder)
    names = table.ids["file"].tolist()
    assert len(names) == 150
    assert table.feature_names == [f"pixel_{i}_{j}" for i in range(8) for j in range(8)]
    for name, label, row in zip(names, table.y, table.X, strict=True):
        assert label == (NAMES[y[number(name)]] if number(name) % 3 == 0 else None)
        np.testing.assert_array_equal(row.reshape(8, 8), images[number(name)])
    assert table.notes == ["Images are read in grey at 8 × 8 pixels; --image-size and --colour change it."]


def test_the_same_model_as_a_table_of_pixels(folder, digits, tmp_path, capsys):
    """From the folder to a report and predictions of a folder, beside the pixels in a CSV file."""
    images, _ = digits
    table = read_table(folder)
    order = [number(name) for name in table.ids["file"]]
    flat = pd.DataFrame(images[order].reshape(150, 64), columns=table.feature_names)
    flat.assign(file=table.ids["file"], kind=table.y).to_csv(tmp_path / "t.csv", index=False)
    run(capsys, "fit", tmp_path / "t.csv", "-t", "kind", "--id", "file", "-o", tmp_path / "m1")
    run(capsys, "fit", folder, "-o", tmp_path / "m2")
    run(capsys, "predict", tmp_path / "m1", tmp_path / "t.csv", "--id", "file", "-o", tmp_path / "p1.csv")
    run(capsys, "predict", tmp_path / "m2", folder, "-o", tmp_path / "p2.csv")
    one, two = (pd.read_csv(tmp_path / f"p{i}.csv") for i in (1, 2))
    assert one["file"].tolist() == two["file"].tolist()
    assert one["predicted"].tolist() == two["predicted"].tolist()
    np.testing.assert_allclose(one["confidence"], two["confidence"], atol=1e-5)


def test_a_column_of_paths(folder, digits, tmp_path, capsys):
    """Relative to the table; other columns are read as ever; the model knows how to read new ones."""
    images, y = digits
    table = pd.DataFrame({"photo": [], "weight": [], "kind": []})
    names = read_table(folder).ids["file"].tolist()
    order = np.array([number(name) for name in names])
    table = pd.DataFrame(
        {
            "photo": [f"digits/{name}" for name in names],
            "weight": np.random.default_rng(0).normal(size=150).round(3),
            "kind": np.where(order % 2, None, np.array(NAMES)[y[order]]),
        }
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    read = read_table(tmp_path / "t.csv", target="kind", image="photo", image_size=(8, 8))
    assert read.ids["photo"].tolist() == table["photo"].tolist()
    assert read.feature_names[:2] == ["weight", "pixel_0_0"]
    np.testing.assert_array_equal(read.X[:, 1:], images[order].reshape(150, 64))
    command = [
        "fit",
        tmp_path / "t.csv",
        "-t",
        "kind",
        "--image",
        "photo",
        "--image-size",
        "4x5",
        "-m",
        "lda",
    ]
    run(capsys, *command, "-o", tmp_path / "m")
    assert read_model(tmp_path / "m").meta["images"] == {"column": "photo", "size": [4, 5], "colour": False}
    out, _ = run(capsys, "predict", tmp_path / "m", tmp_path / "t.csv")
    assert len(out.splitlines()) == 151
    refused(
        lambda: read_table(tmp_path / "t.csv", image="foto"),
        "no image column 'foto'",
        "did you mean 'photo'?",
    )
    refused(lambda: read_table(tmp_path / "t.csv", image_size=(4, 4)), "holds no images", "--image")


def test_sizes_and_modes(tmp_path):
    """A grey ramp in every mode that Pillow writes is the same ramp; sizes are brought to one."""
    ramp = np.tile(np.linspace(0, 255, 64).astype(np.uint8), (64, 1))
    base = Image.fromarray(ramp)
    for mode in ("L", "RGB", "P", "LA", "RGBA"):
        base.convert(mode).save(tmp_path / f"{mode}.png")
    base.convert("CMYK").save(tmp_path / "CMYK.tiff")
    base.convert("YCbCr").save(tmp_path / "YCbCr.jpg", quality=95)
    Image.fromarray(ramp.astype(np.uint16) * 257).save(tmp_path / "I16.png")
    Image.fromarray(ramp.astype(np.float32)).save(tmp_path / "F.tiff")
    base.resize((200, 30)).save(tmp_path / "wide.bmp")
    base.resize((20, 300)).save(tmp_path / "tall.webp", lossless=True)
    turned = base.rotate(90, expand=True)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter when it is shown
    turned.save(tmp_path / "turned.jpg", exif=exif, quality=95)
    table = read_table(tmp_path, image_size=(16, 16))
    expected = np.asarray(base.resize((16, 16), Image.Resampling.BILINEAR), dtype=float).ravel()
    assert table.raw.num_rows == 12
    for name, row in zip(table.ids["file"], table.X, strict=True):
        assert np.abs(row - expected).max() < (20 if name in ("wide.bmp", "tall.webp", "CMYK.tiff") else 6), (
            name
        )
    # without a size they have none in common
    assert read_table(tmp_path).raw.num_columns == 32 * 32


def test_transparent_pixels_are_white(tmp_path):
    Image.new("RGBA", (8, 8), (0, 0, 0, 0)).save(tmp_path / "a.png")
    Image.new("RGBA", (8, 8), (0, 0, 0, 255)).save(tmp_path / "b.png")
    np.testing.assert_array_equal(read_table(tmp_path).X, [[255.0] * 64, [0.0] * 64])


def test_colour_is_three_columns_a_pixel(tmp_path, capsys):
    rng = np.random.default_rng(0)
    for i in range(60):
        place = tmp_path / "c" / ("red" if i % 2 else "green")
        place.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 100, (6, 6, 3)).astype(np.uint8)
        pixels[..., 0 if i % 2 else 1] += 80
        Image.fromarray(pixels).save(place / f"{i}.png")
    table = read_table(tmp_path / "c", colour=True)
    assert table.feature_names[:3] == ["pixel_0_0_red", "pixel_0_0_green", "pixel_0_0_blue"]
    first = np.asarray(Image.open(tmp_path / "c" / table.ids["file"][0]))
    np.testing.assert_array_equal(table.X[0].reshape(6, 6, 3), first)
    run(capsys, "compare", tmp_path / "c", "--colour", "-m", "lda", "-r", 1, "-o", tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert '"channels":3' in page
    assert "plot-part-0" in page
    assert "red/1.png" in page


def test_broken_files_are_named_and_left_out(folder, capsys, tmp_path):
    (folder / "zero" / "cut.png").write_bytes(next((folder / "zero").iterdir()).read_bytes()[:60])
    (folder / "zero" / "text.jpg").write_text("no image")
    (folder / "unlabelled" / "empty.gif").write_bytes(b"")
    (folder / "notes.txt").write_text("by hand")
    (folder / ".hidden.png").write_bytes(b"")
    table = read_table(folder)
    assert table.raw.num_rows == len(table.y) == len(table.ids) == 150
    assert f"1 file in {folder} is no image by the name." in table.notes
    assert (
        "3 images of 153 cannot be read and are left out: 'unlabelled/empty.gif', 'zero/cut.png', 'zero/text.jpg'."
    ) in table.notes
    _, err = run(capsys, "fit", folder, "-m", "lda", "-o", tmp_path / "m")
    assert "'zero/cut.png'" in err


def test_what_is_wrong_is_said_in_a_sentence(tmp_path, capsys):
    (tmp_path / "none").mkdir()
    refused(lambda: read_table(tmp_path / "none"), "is a folder without images")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.png").write_text("no")
    refused(lambda: read_table(tmp_path / "bad"), "no image that can be read", "'a.png'")
    Image.new("L", (8, 8)).save(tmp_path / "bad" / "b.png")
    _, err = run(capsys, "fit", tmp_path / "bad", "-o", tmp_path / "m", status=2)
    assert err.splitlines()[-1].startswith("labelfold: ")
    for size in ("0", "8x", "axb", "8x8x8", "-3"):
        _, err = run(capsys, "fit", tmp_path / "bad", f"--image-size={size}", "-o", tmp_path / "m", status=2)
        assert "--image-size is height x width" in err
    refused(lambda: read_table(tmp_path / "bad", image_size=(60_000, 60_000)), "GB; give --image-size")


def test_labels_beside_images(folder, tmp_path):
    """Those of a tool, by the name of the file alone, besides those of the folders."""
    name = next((folder / "unlabelled").iterdir()).name
    (tmp_path / "l.csv").write_text(f"image,choice\n/upload/{name},two\n")
    table = read_table(folder, labels=tmp_path / "l.csv")
    place = table.ids["file"].tolist().index(f"unlabelled/{name}")
    assert table.y[place] == "two"
    assert sum(label is not None for label in table.y) == 51


@pytest.mark.slow
def test_a_hundred_thousand_files(tmp_path):
    """Each a file of its own, read within memory that the pixels take a few times."""
    image = Image.new("L", (8, 8))
    for i in range(100_000):
        place = tmp_path / f"c{i % 10}"
        if i < 10:
            place.mkdir()
        image.putpixel((i % 8, i // 8 % 8), i % 256)
        image.save(place / f"{i}.png")
    table = read_table(tmp_path)
    assert table.raw.shape == (100_000, 64)
    assert len(set(table.y)) == 10


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes are POSIX")
def test_no_program_is_started_for_an_image_and_no_pipe_is_waited_for(folder, tmp_path, monkeypatch):
    """Pillow would hand PostScript to Ghostscript, whatever the file is called."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "gs").write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    (programs / "gs").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)  # it is looked for once
    (folder / "zero" / "program.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EOF\n")
    (folder / "zero" / "program.eps").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EOF\n")
    os.mkfifo(folder / "zero" / "pipe.png")
    table = read_table(folder)
    assert len(table.ids) == 150
    assert "2 images" in " ".join(table.notes)
    assert not (tmp_path / "started").exists()
