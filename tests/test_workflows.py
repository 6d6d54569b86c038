"""Workflows, Makefile, pyproject.toml and pages name the same versions, targets, extras and groups."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = set(PROJECT["project"]["optional-dependencies"])
GROUPS = PROJECT["dependency-groups"]
CLASSIFIERS = PROJECT["project"]["classifiers"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
JOBS = {
    f"{path.stem}/{name}": job
    for path in WORKFLOWS
    for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items()
}
STEPS = [(name, step) for name, job in JOBS.items() for step in job["steps"]]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("[a-z]*/README.md")])
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def minor_versions(found):
    return sorted(found, key=lambda version: [int(part) for part in version.split(".")])


def targets_of(command):
    """Return the targets of a command of make: its words that are neither options nor variables."""
    return [word for word in shlex.split(command)[1:] if not word.startswith("-") and "=" not in word]


def test_linux_runs_every_python_that_the_project_names():
    named = [found[1] for line in CLASSIFIERS if (found := re.search(r":: Python :: (\d+\.\d+)$", line))]
    assert JOBS["checks/tests"]["strategy"]["matrix"]["python"] == minor_versions(named)
    assert PROJECT["project"]["requires-python"] == f">={minor_versions(named)[0]}"


def test_systems_that_may_fail_are_not_promised():
    assert not JOBS["checks/tests"].get("continue-on-error")
    may_fail = [name for name, job in JOBS.items() if job.get("continue-on-error")]
    assert may_fail in ([], ["checks/other-systems"])
    assert bool(may_fail) != ("Operating System :: OS Independent" in CLASSIFIERS)


def test_the_hosted_checks_run_targets():
    ran = []
    for name, step in STEPS:
        for command in step.get("run", "").splitlines():
            if command != "git diff --exit-code":
                assert command.startswith("make "), (name, command)
                ran += targets_of(command)
    assert set(ran) <= TARGETS
    assert {"test", "lint", "types", "doctest", "docs", "wheel", "coverage"} <= set(ran)


def test_the_one_check_runs_targets():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    ran = [target for line in re.findall(r"^make .*", script, re.MULTILINE) for target in targets_of(line)]
    assert ran == ["lint", "types", "alltests"]
    assert set(ran) <= TARGETS


def test_every_target_is_declared():
    declared = re.search(r"^\.PHONY:((?:.*\\\n)*.*)", MAKEFILE, re.MULTILINE)[1].replace("\\", "").split()
    assert set(declared) == TARGETS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_name_targets_extras_and_groups_that_exist(page):
    text = page.read_text(encoding="utf-8")
    assert set(re.findall(r"(?:`|^ {4,})make ([a-z]+)", text, re.MULTILINE)) <= TARGETS
    assert named_extras(text) <= EXTRAS
    assert set(re.findall(r"pip install[^\n`]* --group (\w+)", text)) <= set(GROUPS)


def named_extras(text):
    return {
        extra
        for found in re.findall(r"(?:labelfold|\.)\[([a-z][a-z0-9,]*)\]", text)
        for extra in found.split(",")
    }


def test_messages_name_extras_that_exist():
    named = set().union(*(named_extras(path.read_text(encoding="utf-8")) for path in SOURCES))
    assert {"app", "label"} <= named <= EXTRAS


def test_the_makefile_installs_what_exists():
    assert set(re.findall(r"--group (\w+)", MAKEFILE)) == set(GROUPS) - {"dev"}
    assert set(re.search(r"^EXTRAS := (.*)", MAKEFILE, re.MULTILINE)[1].split(",")) <= EXTRAS
    included = [group["include-group"] for group in GROUPS["dev"]]
    assert sorted(included) == sorted(set(GROUPS) - {"dev"})


def test_the_help_of_make_names_targets():
    count = int(re.search(r"sed -n '1,(\d+)p'", MAKEFILE)[1])
    lines = MAKEFILE.splitlines()[:count]
    assert all(line.startswith("# ") for line in lines)
    assert {line.split()[2] for line in lines if line.startswith("# make ")} <= TARGETS


def test_hooks_have_the_versions_of_make_lint():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    version = {hook["repo"].rsplit("/", 1)[1].removesuffix("-pre-commit"): hook["rev"] for hook in hooks}
    pinned = dict(line.split("==") for line in GROUPS["lint"] if "==" in line)
    shared = set(version) & set(pinned)
    assert shared == {"check-jsonschema", "codespell", "ruff", "zizmor"}
    assert {name: version[name].removeprefix("v") for name in shared} == {
        name: pinned[name] for name in shared
    }


def test_actions_are_pinned_to_commits():
    """A tag can be moved to other code. Jobs that use one action use one commit of it."""
    lines = [
        line
        for path in WORKFLOWS
        for line in path.read_text(encoding="utf-8").splitlines()
        if " uses:" in line
    ]
    found = [re.search(r" uses: ([\w/-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)$", line) for line in lines]
    assert all(found), [line for line, pin in zip(lines, found, strict=True) if not pin]
    assert len({pin[1] for pin in found}) == len({pin.groups() for pin in found})


def test_checks_that_are_ignored_have_a_reason():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = re.search(r"\[tool\.repo-review\]\nignore = \[\n(.*?)\]", text, re.DOTALL)[1].splitlines()
    assert all(re.fullmatch(r' {4}"[A-Z]+\d+", # .{20,}', line) for line in lines), lines
    assert len(lines) == len(PROJECT["tool"]["repo-review"]["ignore"])


def test_compiled_functions_are_left_out_of_the_coverage():
    """Every decorator that compiles a function has a pattern, and no other decorator has one."""
    patterns = PROJECT["tool"]["coverage"]["report"]["exclude_also"]
    decorators = {
        line.strip() for path in SOURCES for line in re.findall(r"^ *@.*", path.read_text("utf-8"), re.M)
    }
    left_out = {line for line in decorators if any(re.search(pattern, line) for pattern in patterns)}
    assert {line.split("(")[0] for line in left_out} == {
        "@_compile",
        "@_compile_fast",
        "@compiled",
        "@intrinsic",
        "@triton.jit",
    }
    compiling = re.compile(
        r"@\w*\.?(n?jit|compile|vectorize|guvectorize|overload\(|intrinsic|register_jitable)"
    )
    assert {line for line in decorators if compiling.match(line) and "typing" not in line} <= left_out
