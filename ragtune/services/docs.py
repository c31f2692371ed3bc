"""``/docs``: the API as Swagger UI shows it, from this server alone, so that it works without a network.

The page holds no secret and is open. The description that it shows is not, where the server has a key: then the page
asks for it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ragtune.core.errors import MissingExtraError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

_OURS = {"/docs": "index.html", "/docs/page.js": "page.js"}
_SWAGGERS = {f"/docs/{name}": name for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")}
PATHS = frozenset({*_OURS, *_SWAGGERS})
"""What a browser asks for to show the page."""

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
}


def routes() -> list[BaseRoute]:
    """Routes of the page and of the files that it loads.

    Raises:
        MissingExtraError: without the extra ``services``.
    """
    from starlette.routing import Route

    ours, swaggers = Path(__file__).with_name("docs_page"), _swagger_ui()
    files = {path: ours / name for path, name in _OURS.items()}
    files |= {path: swaggers / name for path, name in _SWAGGERS.items()}
    return [Route(path, _sending(file), methods=["GET"], include_in_schema=False) for path, file in files.items()]


def _sending(file: Path) -> Callable[[Request], Awaitable[Response]]:
    from starlette.responses import FileResponse

    async def send(_: Request) -> Response:
        return FileResponse(file, headers=_HEADERS)

    return send


def _swagger_ui() -> Path:
    spec = importlib.util.find_spec("fastapi_offline")
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError("the page of the API", "services")
    return Path(next(iter(spec.submodule_search_locations))) / "static"
