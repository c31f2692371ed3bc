"""A page of HTML without any other file: what the status page and the certificate have in common."""

from __future__ import annotations

_STYLE = """
:root { color-scheme: light dark; --soft: #667; --line: #8885; --good: #287a3e; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --soft: #99a; --good: #6cc184; --bad: #ff8a7a; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 0 auto; padding: 1rem; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: .2rem 0; }
h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem; }
.soft, small { color: var(--soft); }
.good { color: var(--good); fill: var(--good); }
.bad { color: var(--bad); fill: var(--bad); }
.big { font-size: 1.2rem; }
svg { display: block; width: 100%; height: 5rem; border-bottom: 1px solid var(--line); }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem 0 .35rem .8rem; border-bottom: 1px solid var(--line); font-weight: 400; }
th:first-child { text-align: left; padding-left: 0; }
"""


def html_page(title: str, body: str, *, refresh_s: int | None = None) -> str:
    """A page of a title and a body in HTML, which the browser asks for again after ``refresh_s`` seconds."""
    refresh = "" if refresh_s is None else f'\n<meta http-equiv="refresh" content="{refresh_s}">'
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">{refresh}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{_STYLE}</style>
{body}
</html>
"""
