"""A hub of dataset repositories on a local port, speaking what `huggingface_hub` asks: info, tree, HEAD, GET, Range."""

import hashlib
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Repos = dict[str, dict[str, tuple[str, dict[str, bytes]]]]
"""Repository -> branch -> (commit, content by path)."""

COMMIT, OTHER = "1" * 40, "2" * 40


def parquet(rows: list[dict[str, object]], schema: pa.Schema | None = None) -> bytes:
    """Return rows as the bytes of a Parquet file."""
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), out)
    return out.getvalue()


def conll_rows(n: int, shift: int = 0) -> bytes:
    """Return `n` sentences with tags, as a hub's Parquet file."""
    return parquet(
        [
            {"words": [f"w{i}", "Oslo"], "ner": [0, 5 if (i + shift) % 2 else 1]}
            for i in range(n)
        ]
    )


class FakeHub:
    def __init__(self, repos: Repos) -> None:
        self.repos = repos
        self.gets: list[tuple[str, str | None]] = []
        """(path, Range header) of each download."""
        self.stall_after: int | None = None
        """Bytes after which the next download that is longer stops moving, until `go_on` is set."""
        self.stalled, self.go_on = threading.Event(), threading.Event()
        self.status: int | None = None
        """Answer everything with this status."""

    def files(self, repo: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        for branch, (commit, files) in self.repos.get(repo, {}).items():
            if revision in (branch, commit):
                return commit, files
        return None

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Serve it, in place of the public hub as long as it lasts."""
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self.answer(body=False)

            def do_GET(self) -> None:
                self.answer(body=True)

            def send(
                self, status: int, content: bytes, headers: dict[str, str], body: bool
            ) -> None:
                self.send_response(status)
                for key, value in {
                    "Content-Length": str(len(content)),
                    **headers,
                }.items():
                    self.send_header(key, value)
                self.end_headers()
                if not body:
                    return
                if hub.stall_after is not None and len(content) > hub.stall_after:
                    self.wfile.write(content[: hub.stall_after])
                    self.wfile.flush()
                    hub.stall_after = None
                    hub.stalled.set()
                    hub.go_on.wait(60)
                    self.close_connection = True
                    return
                self.wfile.write(content)

            def answer(self, body: bool) -> None:
                parts = unquote(urlsplit(self.path).path).strip("/").split("/")
                if hub.status is not None:
                    self.send(hub.status, b"", {}, body)
                elif parts[:2] == ["api", "datasets"]:
                    self.api("/".join(parts[2:4]), parts[4], "/".join(parts[5:]))
                else:
                    self.file("/".join(parts[1:3]), "/".join(parts[4:]), body)

            def api(self, repo: str, what: str, revision: str) -> None:
                found = hub.files(repo, revision)
                if found is None:
                    code = "RevisionNotFound" if repo in hub.repos else "RepoNotFound"
                    self.send(404, b"{}", {"X-Error-Code": code}, body=True)
                    return
                commit, files = found
                tree = []
                for path, content in files.items():
                    digest = hashlib.sha256(content).hexdigest()
                    entry = {
                        "type": "file",
                        "oid": digest[:40],
                        "size": len(content),
                        "path": path,
                    }
                    if path.endswith((".parquet", ".gz")):
                        entry["lfs"] = {
                            "oid": digest,
                            "size": len(content),
                            "pointerSize": 130,
                        }
                    tree.append(entry)
                siblings = []
                for entry in tree:
                    known = {"rfilename": entry["path"], "size": entry["size"]}
                    lfs = (
                        {**entry["lfs"], "sha256": entry["lfs"]["oid"]}
                        if "lfs" in entry
                        else None
                    )
                    siblings.append({**known, "lfs": lfs} if lfs else known)
                info = {"id": repo, "sha": commit, "siblings": siblings}
                text = json.dumps(info if what == "revision" else tree).encode()
                self.send(200, text, {"Content-Type": "application/json"}, body=True)

            def file(self, repo: str, rest: str, body: bool) -> None:
                commit, _, path = rest.partition("/")
                found = hub.files(repo, commit)
                if found is None or path not in found[1]:
                    code = "EntryNotFound" if found else "RevisionNotFound"
                    self.send(404, b"", {"X-Error-Code": code}, body)
                    return
                content = found[1][path]
                digest = hashlib.sha256(content).hexdigest()
                headers = {
                    "ETag": f'"{digest}"',
                    "X-Repo-Commit": found[0],
                    "Accept-Ranges": "bytes",
                }
                asked = self.headers.get("Range")
                if body:
                    hub.gets.append((path, asked))
                if asked:
                    start = int(asked.removeprefix("bytes=").split("-")[0])
                    headers["Content-Range"] = (
                        f"bytes {start}-{len(content) - 1}/{len(content)}"
                    )
                    self.send(206, content[start:], headers, body)
                else:
                    self.send(200, content, headers, body)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("HF_ENDPOINT", endpoint)
                yield endpoint
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def conll_hub() -> FakeHub:
    """Return a hub that holds CoNLL-2003."""
    conll = {
        f"data/{split}-00000-of-00001.parquet": conll_rows(40)
        for split in ("train", "validation", "test")
    }
    return FakeHub({"hgissbkh/conll2003-en": {"main": (COMMIT, conll)}})
