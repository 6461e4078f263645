"""How long the report's page takes to open from disk, in a headless Chromium.

    python -m tests.performance.analysis.report build/report/index.html

Prints, for a desk and a phone, the median and the largest of the openings: the first paint and the end of loading in
milliseconds since the navigation began, and the seconds that the page's own thread worked, which another load of the
machine moves less. The budget is one second.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from pathlib import Path

SIZES = {"desk": (1400, 900), "phone": (390, 844)}
_MEASURE = """() => [
    performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN,
    performance.getEntriesByType("navigation")[0].loadEventEnd,
]"""


def opened(page: Path, width: int, height: int, times: int) -> list[tuple[float, float, float]]:
    """Return first paint and load in milliseconds, and work in seconds, for so many openings."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
    found = []
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(times):
            context = chromium.new_context(viewport={"width": width, "height": height})
            tab = context.new_page()
            session = context.new_cdp_session(tab)
            session.send("Performance.enable")
            tab.goto(page.resolve().as_uri())
            paint, load = tab.evaluate(_MEASURE)
            metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
            found.append((paint, load, metrics["TaskDuration"]))
            context.close()
        chromium.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path, help="what `python -m analysis report` wrote")
    parser.add_argument("--times", type=int, default=7, help="openings a size")
    options = parser.parse_args()
    print(f"{options.page}: {options.page.stat().st_size / 1e6:.2f} MB")
    for name, (width, height) in SIZES.items():
        columns = list(zip(*opened(options.page, width, height, options.times), strict=True))
        texts = [
            f"{what} {statistics.median(values):.{digits}f} {unit} (at most {max(values):.{digits}f})"
            for what, unit, digits, values in zip(
                ("first paint", "loaded", "work"), ("ms", "ms", "s"), (0, 0, 2), columns, strict=True
            )
        ]
        print(f"{name}: {', '.join(texts)}")


if __name__ == "__main__":
    main()
