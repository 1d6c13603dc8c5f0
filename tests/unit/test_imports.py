"""Importing costs nothing, needs nothing but the core's dependencies, and changes nothing."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest

import lexergy

LEFT_OUT = {
    "jinja2",
    "matplotlib",
    "scipy",
    "sklearn",
    "datasets",
    "gguf",
    "ray",
    "tensorboard",
    "beartype",
    "hypothesis",
}
"""Blocked even where a dependency of ours lists them: it needs them no more at import than we do."""

EVERY_MODULE = """
import importlib, json, pkgutil, sys
for name in json.loads(sys.argv[1]):
    sys.modules[name] = None  # importing it fails, and looking for it finds nothing
import torch, transformers

def settings():
    return {
        "gradients": torch.is_grad_enabled(),
        "anomalies": torch.is_anomaly_enabled(),
        "dtype": str(torch.get_default_dtype()),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "verbosity": transformers.logging.get_verbosity(),
        "generator": torch.random.get_rng_state().tolist(),
        "hook": sys.excepthook is sys.__excepthook__,
    }

before = settings()
import lexergy
names = ["lexergy", *(found.name for found in pkgutil.walk_packages(lexergy.__path__, "lexergy."))]
for name in names:
    importlib.import_module(name)
print(json.dumps({"names": names, "changed": [key for key, value in settings().items() if value != before[key]]}))
"""


def python(code: str, *arguments: str) -> str:
    environment = {**os.environ, "LEXERGY_PROBE": "off", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def core() -> set[str]:
    """The distributions that installing the core brings, dependencies of dependencies included."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    waiting = [_name(line) for line in project["dependencies"]]
    found = {"lexergy"}
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        try:
            lines = requires(name) or []
        except PackageNotFoundError:
            continue  # a dependency of another platform
        waiting += [_name(line) for line in lines if "extra ==" not in line]
    return found


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None
    return re.sub(r"[-_.]+", "-", found[0]).lower()


def blocked() -> list[str]:
    """Every installed module that the core does not bring, and what is left out by name."""
    allowed = core()
    others = {
        module
        for module, owners in packages_distributions().items()
        if not {_name(owner) for owner in owners} & allowed and module not in sys.stdlib_module_names
    }
    # What the environment itself runs on is no import of ours.
    return sorted((others | LEFT_OUT) - {"pip", "setuptools", "pkg_resources", "_distutils_hack", "_virtualenv"})


@pytest.mark.slow
def test_every_module_imports_with_the_core_alone_and_changes_nothing():
    names = blocked()
    assert set(names) >= LEFT_OUT
    assert not {"torch", "transformers", "typer", "rich", "einops", "numpy"} & set(names)
    found = json.loads(python(EVERY_MODULE, json.dumps(names)))
    assert {"lexergy.cli.main", "lexergy.report.plots", "lexergy.contracts", "lexergy.hf"} <= set(found["names"])
    assert found["changed"] == []


def test_the_package_itself_loads_no_torch():
    heavy = "{'torch', 'numpy', 'transformers', 'typer', 'rich'}"
    code = f"import sys, lexergy; dir(lexergy); print(sorted({heavy} & set(sys.modules)))"
    assert python(code).strip() == "[]"


def test_every_public_name_is_found():
    assert set(dir(lexergy)) >= {"load_energy", "load_proposal", "mine", "train_energy", "train", "Joint"}
    for name in lexergy.__all__:
        assert getattr(lexergy, name) is not None


def test_a_name_that_is_not_there_is_an_attribute_error():
    code = "import lexergy, sys; print(hasattr(lexergy, 'nothing'), 'torch' in sys.modules)"
    assert python(code).strip() == "False False"
