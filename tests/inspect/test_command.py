"""`stenolog inspect`, as a process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import httpx

import stenolog
from tests.forked import python


def test_the_command_prints_an_address_that_opens_the_page_and_follows_the_conversation(
    tmp_path: Path,
) -> None:
    db = tmp_path / "talks.db"
    with stenolog.open(db) as log:
        log["demo"].append(stenolog.UserMessage("Which test fails?"))
        command = python("-m", "stenolog", "inspect", "demo", "--db", str(db))
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            where = urlsplit(url)
            assert where.hostname == "127.0.0.1"
            with httpx.Client(base_url=f"http://{where.netloc}", follow_redirects=True) as web:
                page = web.get(url)
                assert "Which test fails?" in page.text
                tail = page.url.path.replace("/c/", "/tail/")
                with web.stream("GET", tail, params={"after": 2}) as stream:
                    log["demo"].append(stenolog.UserMessage("More."))
                    assert (
                        next(line for line in stream.iter_lines() if line.startswith("data: ")) == "data: 3"
                    )
            process.terminate()
            process.wait(timeout=20)


def test_the_demo_opens_its_page_in_the_browser(tmp_path: Path) -> None:
    told = tmp_path / "told.txt"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}.part && mv {told}.part {told}\n')
    browser.chmod(0o755)
    command = python("-m", "stenolog", "demo", "--open", "--db", str(tmp_path / "talks.db"))
    env = {**os.environ, "BROWSER": str(browser), "COLUMNS": "100"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env) as process:
        try:
            assert process.stdout is not None
            lines = iter(process.stdout.readline, b"")
            url = json.loads(next(line for line in lines if line.startswith(b'{"url"')))["url"]
            with httpx.Client(follow_redirects=True) as web:
                assert "Thanks! What did we change in all?" in web.get(url).text
            assert told.read_text().strip() == url
        finally:
            process.terminate()
            process.wait(timeout=20)
