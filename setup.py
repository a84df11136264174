# SPDX-License-Identifier: AGPL-3.0-or-later
"""Package azcaffe. Caffe is not on PyPI: launch/setup.sh builds it and installs its wheel beside this package."""

from pathlib import Path

from setuptools import find_packages, setup


def read_version() -> str:
    """`__version__` of azcaffe/__init__.py, read as text so that nothing is imported while installing."""
    for line in Path(__file__).with_name("azcaffe").joinpath("__init__.py").read_text("utf-8").splitlines():
        if line.startswith("__version__"):
            return line.split('"')[1]
    raise RuntimeError("azcaffe/__init__.py has no __version__")


setup(
    name="azcaffe",
    version=read_version(),
    description="AlphaZero for board games over Caffe: play, evaluate and train with pycaffe nets",
    license="AGPL-3.0-or-later",
    python_requires=">=3.10",
    packages=find_packages(include=["azcaffe", "azcaffe.*"]),
    package_data={"azcaffe": ["web/static/*"]},
    # protobuf 4.21 is the Python side of Debian 12's protoc 3.21, with which Caffe is built.
    install_requires=["numpy>=1.24", "protobuf>=4.21,<4.22"],
    extras_require={
        "caffe": ["scikit-image", "six"],  # what pycaffe needs beside its own wheel
        "cluster": ["ray>=2.40"],
        "openspiel": ["open_spiel"],
        "plots": ["matplotlib"],
        "solver": ["bitbully"],
        "web": ["fastapi>=0.115", "pydantic>=2", "uvicorn"],
        "dev": ["pytest", "hypothesis", "ruff", "mypy", "types-protobuf", "schemathesis", "selenium"],
    },
    entry_points={"console_scripts": ["azcaffe = azcaffe.cli.main:main"]},
)
