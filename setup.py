"""Map the top-level folders into the one import namespace ``kernelscope``.

The folders stay at the top of the checkout (``analysis/`` is imported as ``kernelscope.analysis``), so that they are easy
to find, and no generic name such as ``analysis`` is installed at the top of anybody's ``site-packages``.
"""

import runpy

from setuptools import find_packages, setup

FOLDERS = ("analysis", "cli", "nsys_wrappers", "reports", "tracer", "workloads")

packages = ["kernelscope", *(f"kernelscope.{folder}" for folder in FOLDERS)]
for folder in FOLDERS:
    packages += [f"kernelscope.{folder}.{package}" for package in find_packages(folder)]

setup(
    version=runpy.run_path("tracer/version.py")["VERSION"],
    packages=packages,
    package_dir={"kernelscope": "kernelscope", **{f"kernelscope.{folder}": folder for folder in FOLDERS}},
    package_data={
        "": ["py.typed"],
        **{name: ["*-cpu.txt", "*-cuda.txt", "*.hashes"] for name in packages if name.startswith("kernelscope.workloads.")},
        "kernelscope.analysis.device": ["datasheets.csv"],
        "kernelscope.analysis.published": ["data/*"],
        "kernelscope.workloads": ["experiments/*.toml", "*.hashes"],
        "kernelscope.reports": ["templates/*", "templates/vendor/*"],
        "kernelscope.tracer.inside.profiling": ["injected/*.py"],
    },
)
