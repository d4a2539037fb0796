"""Draw the pictures of docs/images that show a comparison: `pictures.py out/demo`, after `make demo`.

Pictures of the page are taken in headless Chromium. All have at most 256 colours, so that they stay small.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDTH = 1200  # pixels of a figure
FIGURES = {"step_times": "step-times", "kinds": "kinds", "layers": "layers"}
OF_RUN = {"steps": "steps", "roofline": "roofline"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PARTS = {"timeline": 1320, "flame": 330}  # parts of the page, and how many pixels of each are shown at most

_OPEN = "(name) => document.querySelectorAll('details').forEach((one) => { one.open ||= !!one.querySelector(`#${name}`); })"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("comparison", type=Path, help="a folder that `compare` wrote, with a framework `pytorch`")
    folder: Path = parser.parse_args().comparison
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary)
        _reported(folder, "--figures", str(made / "all"))
        _reported(folder / "pytorch", "--figures", str(made / "run"))
        _reported(folder, "-o", str(made / "page.html"))
        for name, target in FIGURES.items():
            _keep(made / "all" / f"{name}.png", target)
        for name, target in OF_RUN.items():
            _keep(made / "run" / f"{name}.png", target)
        waterfall = sorted((made / "all").glob("waterfall-*.png"))[0]
        _keep(waterfall, "waterfall")
        _of_page(made / "page.html", made)


def _reported(path: Path, *options: str) -> None:
    command = [str(Path(sys.executable).with_name("kernelscope")), "report", str(path), *options, "--force"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _of_page(page: Path, made: Path) -> None:
    """Take pictures of the first screen and of parts of the page."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit("pictures: no chromium, which takes the pictures of the page")
    with sync_playwright() as started:
        opened = started.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        shown = opened.new_page(viewport={"width": 1280, "height": 900})
        shown.goto(page.as_uri())
        shown.wait_for_timeout(1000)
        shown.screenshot(path=made / "report.png")
        _keep(made / "report.png", "report")
        for name, most in PARTS.items():
            _of_part(shown, name, made / f"{name}.png", most)
            _keep(made / f"{name}.png", name)
        opened.close()


def _of_part(page: Page, name: str, target: Path, most: int) -> None:
    """Open a part of the page and take its picture, at most so many pixels high."""
    page.evaluate(_OPEN, name)
    page.wait_for_timeout(1500)
    box = page.locator(f"#{name}").bounding_box()
    assert box is not None
    clip = {"x": box["x"], "y": box["y"] + page.evaluate("scrollY"), "width": box["width"], "height": min(box["height"], most)}
    page.screenshot(path=target, clip=clip, full_page=True)


def _keep(picture: Path, name: str) -> None:
    """Store a picture under a name, narrow enough and with few colours."""
    with Image.open(picture) as image:
        drawn = image.convert("RGB")
    if drawn.width > 1280:
        drawn = drawn.resize((WIDTH, round(drawn.height * WIDTH / drawn.width)), Image.Resampling.LANCZOS)
    drawn.quantize(256).save(IMAGES / f"{name}.png", optimize=True)
    print(f"docs/images/{name}.png: {drawn.width} x {drawn.height}")


if __name__ == "__main__":
    main()
