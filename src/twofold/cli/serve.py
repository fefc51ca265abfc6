"""`twofold serve`: answer an application's requests from a model on this machine, and show people the same."""

from __future__ import annotations

import json as jsonlib
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from twofold.cli.network import CertificateOption, KeyOption, address_of, need_network
from twofold.cli.options import Json
from twofold.cli.progress import bars
from twofold.errors import UntrustedServer

__all__ = ["serve"]

Listen = Annotated[str, typer.Option("--listen", help="Address and port, of this machine alone by default.")]
Token = Annotated[
    Path | None,
    typer.Option("--token", help="File with the token that requests must show; made if it is not there."),
]
Titles = Annotated[
    Path | None,
    typer.Option("--catalog", help="The item list, for titles; by default items.csv beside the model, if it fits."),
]


def serve(
    model: Annotated[Path, typer.Argument(help="A model made by `twofold personalize` or `join`.")],
    listen: Listen = "127.0.0.1:8080",
    catalog: Titles = None,
    token: Token = None,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    console: Annotated[bool, typer.Option("--console/--no-console", help="Pages for people at /.")] = True,
    ledger: Annotated[Path | None, typer.Option("--ledger", help="Show this ledger in the console.")] = None,
    log: Annotated[Path | None, typer.Option("--log", help="Show the approvals of this security log.")] = None,
    card: Annotated[Path | None, typer.Option("--card", help="Show this signed privacy card.")] = None,
    json: Json = False,
) -> None:
    """Serve a model to an application (JSON) and to people (a console), on this machine by default.

    Another address needs --token, --certificate and --key. When the file of the model is replaced, the new one is
    served without a pause; a file that is no model changes nothing, and /health says so.

    Examples
    --------
    twofold serve st-anna.model
    twofold serve st-anna.model --catalog items.csv --ledger st-anna.ledger
    """
    need_network("starlette", "uvicorn", "httpx")
    from twofold.serve.api import LIMITS, Api, build_app, is_local  # these load starlette and uvicorn
    from twofold.serve.console import console_routes
    from twofold.serve.current import Current
    from twofold.server.service.app import password_in
    from twofold.server.service.run import server_for

    host, port = address_of(listen)
    if (certificate is None) != (key is None):
        raise typer.BadParameter("--certificate and --key belong together")
    if not is_local(host) and (token is None or certificate is None):
        raise UntrustedServer(
            "an address that others can reach needs a token and a certificate.",
            found=listen,
            expected="--token, --certificate and --key; or an address of this machine, as 127.0.0.1:8080",
            fix="--token serve.token --certificate server.pem --key server.key",
            parameter="listen",
        )
    with bars(f"loading {model.name}"):
        current = Current(model, catalog=catalog)
    api = Api(current, token=None if token is None else password_in(token))
    app = build_app(api, more=console_routes(api, ledger=ledger, log=log, card=card) if console else ())
    server = server_for(app, LIMITS, host=host, port=port, certificate=certificate, key=key)
    url = f"{'http' if certificate is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
    made = current.answers.model
    if json:
        typer.echo(jsonlib.dumps({"url": url, "model": model.name, "entity": made.entity, "items": len(made.catalog)}))
    else:
        typer.echo(f"{model.name}: {made.entity}, {len(made.catalog):,} items")
        typer.echo(f"listening on {url}; Ctrl-C or SIGTERM ends it")
        typer.echo(f"requests: {url}/openapi.json" + (f"; console: {url}/ in a browser" if console else ""))
        if token is not None:
            typer.echo(f"token: in {token}, as Authorization: Bearer, or as the password of the console")
    sys.stdout.flush()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn ends first, and then repeats the signal
    with suppress(KeyboardInterrupt):
        server.run()
