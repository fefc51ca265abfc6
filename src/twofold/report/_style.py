"""The one style sheet of our pages: the look of the privacy card, with a dark screen and a narrow one."""

from __future__ import annotations

from typing import Final

__all__ = ["COLOURS", "SERIES_COLOURS", "STYLE"]

#: Line colours on white and on the dark ground: at least 4.5 to 1 against each, apart for the colour-blind (after Okabe
#: and Ito 2008, darkened or lightened). Markers and dashes tell the lines apart where there is no colour.
SERIES_COLOURS: Final = (
    ("#111111", "#f2f2f2"),
    ("#0061a4", "#6fb7ff"),
    ("#b3400a", "#ff9d66"),
    ("#00694e", "#4fd1a5"),
    ("#8a2d78", "#f29be0"),
    ("#6b5900", "#e6cf4a"),
)


def _variables(number: int) -> str:
    return " ".join(f"--line-{k}: {pair[number]};" for k, pair in enumerate(SERIES_COLOURS))


#: Colours of a page, by name, on white and on a dark screen.
COLOURS: Final = f"""
:root {{ color-scheme: light; --ink: #111; --ground: #fff; --soft: #444; --rule: #ccc; --shade: #f4f4f4;
  {_variables(0)} }}
@media screen and (prefers-color-scheme: dark) {{
  :root {{ color-scheme: dark; --ink: #eee; --ground: #14171a; --soft: #b8bcc0; --rule: #4a4f55; --shade: #20252a;
    {_variables(1)} }}
}}
"""

STYLE: Final = f"""{COLOURS}
* {{ box-sizing: border-box; }}
body {{ font: 15px/1.45 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; color: var(--ink);
  background: var(--ground); max-width: 800px; margin: 24px auto; padding: 0 16px; }}
h1 {{ font-size: 22px; line-height: 1.2; margin: 0 0 2px; }}
h2 {{ font-size: 16px; margin: 26px 0 6px; border-bottom: 1px solid var(--ink); padding-bottom: 2px; }}
p {{ margin: 4px 0 8px; overflow-wrap: anywhere; }}
a {{ color: inherit; }}
a:focus-visible, summary:focus-visible, .scroll:focus-visible {{ outline: 2px solid var(--ink); outline-offset: 2px; }}
.when, footer {{ color: var(--soft); }}
.when {{ margin: 0 0 10px; }}
.notice {{ border: 2px solid var(--ink); padding: 12px 16px; margin: 10px 0; }}
.notice p {{ font-size: 16px; font-weight: 600; margin: 0; }}
.notice p + p {{ font-size: 15px; font-weight: 400; margin-top: 6px; }}
.notice.warning {{ background: var(--ink); color: var(--ground); }}
nav {{ margin: 10px 0; font-size: 14px; }}
nav ol {{ margin: 0; padding: 0; list-style: none; display: flex; flex-wrap: wrap; gap: 4px 16px; }}
.scroll {{ overflow-x: auto; margin: 6px 0 10px; }}
table {{ border-collapse: collapse; width: 100%; }}
caption {{ text-align: left; font-weight: 600; padding: 4px 0; max-width: calc(min(100vw, 800px) - 32px); }}
table {{ font-size: 14px; }}
td, th {{ text-align: left; vertical-align: top; padding: 3px 12px 3px 0; border-bottom: 1px solid var(--rule); }}
td:last-child, th:last-child {{ padding-right: 0; }}
th {{ font-weight: 600; }}
tbody th {{ min-width: 124px; }}
tbody td:not(.number) {{ min-width: 120px; }}
thead th {{ color: var(--soft); font-weight: 400; vertical-align: bottom; }}
td.number, th.number {{ text-align: right; }}
td.number {{ white-space: nowrap; font-variant-numeric: tabular-nums; }}
tr.strong th, tr.strong td {{ font-weight: 700; }}
table.facts th {{ width: 30%; min-width: 110px; }}
table.facts td {{ overflow-wrap: anywhere; }}
.hash, pre {{ font: 12px/1.4 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
.hash {{ overflow-wrap: anywhere; }}
pre {{ overflow-x: auto; background: var(--shade); padding: 8px; margin: 4px 0; }}
.note {{ color: var(--soft); font-size: 14px; }}
details {{ margin: 0 0 10px; font-size: 14px; }}
summary {{ cursor: pointer; color: var(--soft); }}
figure {{ margin: 12px 0; break-inside: avoid; }}
figcaption {{ font-weight: 600; margin-bottom: 4px; }}
figure svg {{ display: block; width: 100%; height: auto; max-width: 560px; }}
figure svg * {{ stroke-linejoin: round; stroke-linecap: butt; }}
ul {{ margin: 4px 0 8px; padding-left: 18px; }}
li {{ margin: 2px 0; }}
footer {{ font-size: 13px; margin: 28px 0 16px; border-top: 1px solid var(--rule); padding-top: 8px; }}
@page {{ size: A4; margin: 14mm; }}
@media print {{
  body {{ margin: 0; padding: 0; max-width: none; font-size: 11px; line-height: 1.35; }}
  h1 {{ font-size: 18px; }}
  h2 {{ font-size: 13.5px; margin-top: 14px; break-after: avoid; }}
  .notice {{ padding: 8px 12px; break-inside: avoid; }}
  .notice p {{ font-size: 13px; }}
  .notice p + p, details, .note {{ font-size: 11px; }}
  nav, details:not([open]) {{ display: none; }}
  tr, li, figure {{ break-inside: avoid; }}
  .scroll {{ overflow: visible; }}
  table {{ font-size: 10.5px; }}
  td, th {{ padding-right: 8px; }}
  .hash {{ font-size: 9.5px; }}
  figure svg {{ max-width: 440px; }}
  * {{ print-color-adjust: exact; }}
}}
"""
