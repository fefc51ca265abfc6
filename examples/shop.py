"""A small web shop that asks `twofold serve` what goes with a basket. Standard library only.

::

    twofold serve shop.model                 # the API, on 127.0.0.1:8080
    python examples/shop.py                  # the shop, on 127.0.0.1:8000

The shop never sees the model or anybody's history: it sends one basket and gets a few items back.
"""

from __future__ import annotations

import json
import sys
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError
from urllib.parse import parse_qs
from urllib.request import Request, urlopen

API = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"


def suggestions(basket: dict[str, int], n: int = 3) -> list[str]:
    """Ask for items that go with a basket; a shop without suggestions is still a shop."""
    body = json.dumps({"basket": basket, "n": n}).encode()
    question = Request(f"{API}/recommendations", body, {"content-type": "application/json"})
    try:
        with urlopen(question, timeout=1) as answer:
            return [one["item"] for one in json.load(answer)["recommendations"]]
    except URLError:
        return []


class Shop(BaseHTTPRequestHandler):
    """One page: a basket, and what goes with it."""

    def do_GET(self) -> None:
        """Show an empty basket."""
        self._page({})

    def do_POST(self) -> None:
        """Show the basket that was typed in."""
        form = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        self._page(dict.fromkeys(" ".join(form.get("basket", [])).split(), 1))

    def _page(self, basket: dict[str, int]) -> None:
        listed = "".join(f"<li>{escape(name)}" for name in suggestions(basket))
        page = f"""<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Shop</title><h1>Shop</h1>
<form method="post"><label>Basket <input name="basket" value="{escape(" ".join(basket))}"></label>
<button>Ask</button></form>
<h2>Goes with it</h2><ul>{listed or "<li>nothing yet"}</ul>"""
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(page.encode())


if __name__ == "__main__":
    print("http://127.0.0.1:8000")
    ThreadingHTTPServer(("127.0.0.1", 8000), Shop).serve_forever()
