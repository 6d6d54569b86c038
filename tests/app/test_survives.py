"""What a command has finished outlasts the failure of a later one, and every failure is one sentence."""

import io
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from labelfold.app.commands._cli import main
from labelfold.app.io import FileProblem, _writing, _writing as _finished
from labelfold.app.io._writing import FolderLock

pytestmark = pytest.mark.usefixtures("quick_comparisons")
MAIN = "import sys; from labelfold.app.commands._cli import main; sys.exit(main())"
COMPARE = "compare iris.csv -t species --id row -m lda -r 1 --save -o r"


def run(capsys, command, status):
    assert main(command.split()) == status
    return capsys.readouterr()


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert main(["datasets", "iris", "-o", "iris.csv", "--labels", "30"]) == 0
        assert main(COMPARE.split()) == 0
    return folder


@pytest.fixture
def finished(once, tmp_path, monkeypatch):
    """A folder with what a comparison made."""
    shutil.copytree(once, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LABELFOLD_DEBUG", raising=False)
    return tmp_path / "r"


def test_a_comparison_that_cannot_be_written_leaves_the_files_of_the_one_before(
    finished, monkeypatch, capsys
):
    before = contents(finished)
    for name in ("model.skops", "report.html"):
        whole = _finished.finished_file

        def full(path, name=name, whole=whole):
            if path.name == name:
                raise OSError(28, "No space left on device")
            return whole(path)

        with monkeypatch.context() as patched:
            patched.setattr(_finished, "finished_file", full)
            patched.setattr(_writing, "finished_file", full)
            _, err = run(capsys, COMPARE, 2)
        assert err.splitlines()[-1] == "labelfold: r could not be written: No space left on device."
        assert contents(finished) == before


def test_the_folder_is_locked_until_all_is_written(finished, monkeypatch, capsys):
    import labelfold.app.report._page as page

    whole, refused = page.render, []

    def render(*args):
        with pytest.raises(FileProblem, match="Another comparison"):
            FolderLock(finished)
        refused.append(True)
        return whole(*args)

    monkeypatch.setattr(page, "render", render)
    run(capsys, COMPARE, 0)
    assert refused == [True]
    FolderLock(finished).release()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that is always full")
def test_a_full_disk_for_what_is_said_is_a_sentence(finished, monkeypatch, capsys):
    said = "labelfold: The output could not be written: No space left on device."
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-c", MAIN, "predict", "r/model.skops", "iris.csv"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, said)
    before = contents(finished)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr("sys.stdout", full)
        _, err = run(capsys, COMPARE, 1)
    assert err.splitlines()[-1] == said
    assert contents(finished).keys() == before.keys()
    assert contents(finished)["report.html"] != before["report.html"]


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("when", ["numpy", "pandas", "labelfold.app.commands._model"])
def test_ctrl_c_while_the_command_starts_is_a_sentence(when):
    stop = (
        "import sys, signal\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # tests may run where it is ignored
        "class Stop:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {when!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "import labelfold.app.commands._cli\n"
        f"sys.meta_path.insert(0, Stop()); sys.modules.pop({when!r}, None)\n"
        "sys.exit(labelfold.app.commands._cli.main())"
    )
    done = subprocess.run([sys.executable, "-c", stop, "methods"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "labelfold: Stopped.\n")


@pytest.mark.parametrize("says", [0.0, 4.4e9], ids=["1970", "2109"])
def test_a_wrong_clock_is_no_reason_to_fail(finished, monkeypatch, capsys, says):
    monkeypatch.setattr("time.time", lambda: says)
    for path in ("e.npz", "e.parquet"):
        run(capsys, f"transform r/model.skops iris.csv -o {path}", 0)
    run(capsys, "fit iris.csv -t species --id row -m naive-bayes -o m.skops", 0)
    run(capsys, "predict m.skops iris.csv -o p.csv", 0)


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_ctrl_c_in_a_callback_that_swallows_it_still_stops():
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import labelfold.app.commands._cli as cli, labelfold.app.commands._model as commands\n"
        "class Quiet:\n"
        "    def __del__(self):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "def app(**_):\n"
        "    Quiet()\n"
        "    for _ in range(100):\n"
        "        time.sleep(0.01)\n"
        "commands.app = app\n"
        "sys.exit(cli.main())"
    )
    done = subprocess.run([sys.executable, "-c", code, "methods"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "labelfold: Stopped.\n")


def test_a_model_whose_parts_do_not_fit_is_a_sentence(finished, capsys):
    with zipfile.ZipFile(finished / "model.skops") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    number = io.BytesIO()
    np.save(number, np.float64(1.0))
    arrays = [name for name in members if name.endswith(".npy")]
    said = set()
    for damaged in arrays:
        with zipfile.ZipFile(finished / "bad.skops", "w") as archive:
            for name, content in members.items():
                archive.writestr(name, number.getvalue() if name == damaged else content)
        for command in ("predict r/bad.skops iris.csv", "inspect r/bad.skops"):
            status = main(command.split())
            err = capsys.readouterr().err
            assert status in (0, 2), err
            said |= {line for line in err.splitlines() if "cannot be used" in line}
    assert any("it is damaged, or was not written by labelfold" in line for line in said)


@pytest.mark.skipif(os.name != "posix", reason="pipes and links are POSIX")
@pytest.mark.parametrize("name", ["results.csv", "run.json", "report.html", ".lock"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(finished, capsys, name):
    (finished / name).unlink(missing_ok=True)
    os.mkfifo(finished / name)
    _, err = run(capsys, COMPARE, 2)
    assert "is a device or a pipe" in err or "written to" in err


@pytest.mark.parametrize("name", ["results.csv", "run.json"])
def test_results_are_not_written_through_a_link_out_of_the_folder(finished, capsys, tmp_path, name):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (finished / name).unlink()
    (finished / name).symlink_to(victim)
    _, err = run(capsys, COMPARE, 2)
    assert f"r/{name} is a link that leads out of its folder" in err
    assert victim.read_bytes() == b"precious"
