"""Make the pictures of the pages: `python docs/screenshots.py`, on the conversation of `stenolog demo`.

    python docs/screenshots.py --of TRANSCRIPT... --into FOLDER     of an imported session instead

It needs Chromium and the extra `dev`. Look at each picture before it is committed.
"""

from __future__ import annotations

import argparse
import base64
import math
import struct
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import stenolog  # noqa: E402
from tests.browser.browsing import Scheme, chromium, inspected, missing, site  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Browser

IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT, SCALE = 1200, 620, 1.5
SHOTS: dict[str, tuple[str, Scheme]] = {
    "inspect-read": ("/read/{talk}?turn=1", "light"),
    "inspect-conversation": ("/c/{talk}?at={at}&agent={agent}", "light"),
    "inspect-diff": ("/diff/{talk}?at={cut}&agent={agent}", "light"),
    "inspect-cost": ("/cost/{talk}", "light"),
    "inspect-context": ("/context/{talk}?agent={agent}", "dark"),
    "inspect-what-if": ("/whatif/{talk}?at={at}&agent={agent}&budget=300", "light"),
    "inspect-machine": ("/machine/{talk}?at={at}&agent={agent}", "dark"),
}
"""The pictures: the address of a page, and the colours."""
ALIKE = 24
"""The distance of red, green and blue up to which two colours are one."""
PIXELS = """async (png) => {
    const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const canvas = new OffscreenCanvas(bitmap.width, bitmap.height), context = canvas.getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const data = context.getImageData(0, 0, bitmap.width, bitmap.height).data;
    let text = "";
    for (let at = 0; at < data.length; at += 8190)
        text += String.fromCharCode(...data.subarray(at, at + 8190));
    return [bitmap.width, bitmap.height, btoa(text)];
}"""


def main() -> None:
    """Make the pictures that are asked for."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--of", nargs="+", type=Path, default=[], metavar="TRANSCRIPT")
    reader.add_argument("--into", type=Path, default=IMAGES, metavar="FOLDER")
    asked = reader.parse_args()
    if reason := missing():
        reader.error(reason)
    asked.into.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        db = Path(folder, "talks.db")
        verb = ["import", *map(str, asked.of)] if asked.of else ["demo", "--no-open"]
        command = [sys.executable, "-m", "stenolog", *verb, "--db", str(db)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        place = place_in(db)
        with chromium() as browser, inspected(db) as url:
            for name, (path, scheme) in SHOTS.items():
                picture = small(browser, shot(browser, url, path.format(**place), scheme))
                (asked.into / f"{name}.png").write_bytes(picture)
                print(f"{name}.png {len(picture) / 1000:.0f} kB")


def place_in(db: Path) -> dict[str, str]:
    """Return the longest conversation, the agent with most to say there, the last position, and a cut."""
    with stenolog.open(db) as log:
        talk = max((log[name] for name in log.names()), key=lambda each: each.position)
        says = Counter(getattr(entry.event, "agent", "") for entry in talk.entries())
        del says[""]
        agent, _ = says.most_common(1)[0]
        name, head = quote(talk.name, safe=""), talk.position
        cuts = [mark.position for mark in talk.context_curve(agent).marks if mark.kind == "cut"]
        return {"talk": name, "at": str(head), "agent": quote(agent), "cut": str((cuts or [head])[0])}


def shot(browser: Browser, url: str, path: str, scheme: Scheme) -> bytes:
    """Return a picture of a page."""
    size = {"width": WIDTH, "height": HEIGHT}
    context = browser.new_context(color_scheme=scheme, viewport=size, device_scale_factor=SCALE)
    page = context.new_page()
    page.goto(url)
    page.goto(site(page.url) + path)
    page.wait_for_timeout(500)  # rows and the request come by themselves
    picture = page.screenshot()
    context.close()
    return picture


def small(browser: Browser, picture: bytes) -> bytes:
    """Return a picture with a palette: the colours that are used most, and for others the nearest one."""
    page = browser.new_page()
    width, height, pixels = page.evaluate(PIXELS, base64.b64encode(picture).decode())
    page.close()
    found = memoryview(base64.b64decode(pixels)).cast("I")
    colours = Counter(found)
    parts = {colour: tuple(struct.pack("I", colour)[:3]) for colour in colours}
    palette: list[tuple[int, ...]] = []
    for colour, _ in colours.most_common():
        # Shades that the eye cannot tell apart are one: else rare colours have no room beside them.
        if all(math.dist(parts[colour], taken) > ALIKE for taken in palette):
            palette.append(parts[colour])

    def nearest(colour: tuple[int, ...]) -> int:
        return min(range(len(palette)), key=lambda at: math.dist(palette[at], colour))

    palette = palette[:256]
    index = {colour: nearest(parts[colour]) for colour in colours}
    rows = (found[row * width : (row + 1) * width] for row in range(height))
    lines = b"".join(b"\0" + bytes([index[colour] for colour in row]) for row in rows)
    chunks = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0),
        b"PLTE": b"".join(map(bytes, palette)),
        b"IDAT": zlib.compress(lines, 9),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks.items()
    )


if __name__ == "__main__":
    main()
