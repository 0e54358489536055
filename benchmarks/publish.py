"""
The results as a table on a terminal, a page, and a plot.

    python benchmarks/publish.py RESULTS.json DOCS-FOLDER    # from an earlier run
"""

import html
import json
import math
import sys
from pathlib import Path

#: What a row is called in the plot.
SHORT = {
    "send": "send / append",
    "send-floor": "send / floor",
    "turn": "claim + complete / floor",
    "processes": "8 processes",
    "processes-slow": "8 processes, +1 ms",
    "batch": "send_many of 100",
    "list": "list",
    "cold": "cold list",
    "verify": "verify + replay",
    "rebuild": "rebuild the index",
    "memory": "memory",
    "beside": "send while listing",
}


_BY = " \N{MULTIPLICATION SIGN}"


def figure(value, unit):
    """A figure with as many digits as it bears."""
    if unit == "MB":
        return f"{value:+.1f} MB"
    digits = 2 if abs(value) < 10 else 1
    return f"{value:.{digits}f}{_BY if unit else ''}"


def milliseconds(took):
    return f"{took:.0f} ms" if took >= 100 else f"{took:.3g} ms"


def reach(row):
    value = f"{row['reach']:+d} MB" if row["unit"] == "MB" else f"{row['reach']:g}{_BY if row['unit'] else ''}"
    return f"{'≥' if row['more_is_better'] else '≤'} {value}"


def span(row):
    return f"{figure(row['min'], row['unit'])} … {figure(row['max'], row['unit'])}"


def peer_text(peer):
    if peer["times_as_fast"] is None:
        return peer["said"]
    lead = "" if peer["times_as_fast"] >= 1 else " (slower)"
    return f"{figure(peer['times_as_fast'], 'times')}{lead}"


# --- terminal ---------------------------------------------------------------------------------------------------------


def terminal(results):
    lines = []
    for row in results["rows"]:
        mark = "reached" if row["reached"] else "MISSED "
        overall = "" if row["overall"] is None else f", of the sums {figure(row['overall'], row['unit'])}"
        lines += [
            f"{mark}  {figure(row['median'], row['unit']):>9}  reach {reach(row):<9} {span(row)}{overall}",
            f"         {row['work']}  /  {row['against']}",
        ]
        lines += [f"             {side}: {milliseconds(took)}" for side, took in row["sides_ms"].items()]
        lines += [f"             beside {peer['name']}: {peer_text(peer)}" for peer in row["peers"]]
    lines += [f"FAILED   {name}: {why}" for name, why in results["failed"].items()]
    return "\n".join(lines)


# --- the page ---------------------------------------------------------------------------------------------------------

_HEAD = """# Benchmarks

How fast is fencepost? Each line is a ratio between two things that were measured in the same run, taking turns: against
the least that the disk or the interpreter could take for it, and against others who do the same work. A ratio survives
a slow disk and a busy minute; milliseconds do not. The figure is the median of the ratios of all rounds, with the least
and the greatest behind it. Nothing is left out for having been missed.
"""

_COMMAND = """## Do it yourself

    tox -e bench                  # about half an hour, 4 GB of disk for stores and 4 GB of memory
    tox -e bench -- --quick       # to try it
    tox -e bench -- --publish     # writes this page

`FENCEPOST_BENCH_DIR` says where the stores are kept, and so which disk is measured. Everything is in `benchmarks/`.
"""

_PEERS = """## Beside others

How many times as fast as the other fencepost is: above 1 it leads, below 1 it is slower. All do the same work in the
same run, and each syncs every message: *SQLite* is a queue of one table in WAL mode with `synchronous = FULL`, as one
writes it in an afternoon; *persist-queue* is its `SQLiteAckQueue`, which syncs by itself; *litequeue* sets
`synchronous = NORMAL`, which can lose what it has confirmed, and was set to `FULL` through its public connection. The
*neosian file store* is used through its library; its send syncs the message's file of versions and renames the document
into place without a sync, and it has no setting for more, so it promises less than the others here. Only it and
fencepost keep a history of each message; persist-queue and litequeue know neither leases nor tokens.
"""


def page(results):
    where = results["where"]
    lines = [_HEAD]
    if where["quick"]:
        lines.append("**This was a trial with few messages and few rounds. Its figures mean little.**\n")
    versions = ", ".join(f"{name} {found}" for name, found in where["versions"].items() if found)
    machine = f"{where['system']} with {where['cores']} cores, {where['file_system']}, {where['python']}"
    lines += [
        f"Measured on {where['date']} on {machine} and SQLite {where['sqlite']}.",
        f"Versions: {versions}.\n",
        "![The results against what they are to reach, and against others](benchmarks.svg)\n",
        "## The table\n",
        "| work | measured against | to reach | result | least … greatest | |",
        "|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        lines.append(
            f"| {row['work']} | {row['against']} | {reach(row)} | **{figure(row['median'], row['unit'])}** |"
            f" {span(row)} | {'reached' if row['reached'] else '**missed**'} |"
        )
    lines += [f"| {name} | | | **failed** | {why} | |" for name, why in results["failed"].items()]
    lines += ["", *_shares(results), _PEERS, *_peer_table(results), "", "## What was done\n"]
    for row in results["rows"]:
        said = [f"**{row['work']}.** {row['detail']}"]
        if row["overall"] is not None:
            said.append(f"From the sums of all rounds: {figure(row['overall'], row['unit'])}.")
        if row["sides_ms"]:
            sides = "; ".join(f"{side} {milliseconds(took)}" for side, took in row["sides_ms"].items())
            said.append(f"Medians: {sides}.")
        lines.append(f"- {' '.join(said)}")
    return "\n".join([*lines, "", _COMMAND])


def _shares(results):
    """How the three kinds of figures read."""
    units = {row["unit"] for row in results["rows"]}
    lines = []
    if "" in units:
        lines.append("A plain figure is the share of the other side's speed: 1 is as fast as the raw loop.")
    if "times" in units:
        lines.append(f"A figure with{_BY} says how many times as much: speed for the processes, time for all others.")
    return [*lines, ""]


def _peer_table(results):
    lines = ["| work | beside | times as fast | least … greatest |", "|---|---|---|---|"]
    for row in results["rows"]:
        for peer in row["peers"]:
            spread = "" if peer["min"] is None else f"{figure(peer['min'], 'times')} … {figure(peer['max'], 'times')}"
            said = peer_text(peer).replace("|", "\\|").replace("\n", " ")
            lines.append(f"| {row['work']} | {peer['name']} | {said} | {spread} |")
    return lines


# --- the plot ---------------------------------------------------------------------------------------------------------

_LEFT, _RIGHT, _LINE, _BAR = 290, 800, 20, 12
_GOOD, _BAD = "#2f7d4f", "#b3402e"


def plot(results):
    """Two panels on one logarithmic scale each: how far past its mark each result is, and how it does beside others."""
    reached = [(SHORT.get(row["key"], row["key"]), *_past(row)) for row in results["rows"]]
    beside = [
        (f"{_work(row)}: {peer['name'].partition(' (')[0]}", peer["times_as_fast"], _colour(peer), "")
        for row in results["rows"]
        for peer in row["peers"]
        if peer["times_as_fast"] is not None
    ]
    parts, y = [], 10
    for title, bars in (
        ("Result by what it is to reach: right of the line it is reached", reached),
        ("Times as fast as others: right of the line fencepost leads", beside),
    ):
        if bars:
            drawn, y = _panel(title, bars, y)
            parts += drawn
    size = f'width="{_RIGHT + 70}" height="{y}" viewBox="0 0 {_RIGHT + 70} {y}"'
    style = 'font-family="system-ui, sans-serif" font-size="12" fill="#222"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n'
        f'<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'
    )


def _work(row):
    return SHORT.get(row["key"], row["key"]).partition(" / ")[0]


def _colour(peer):
    return _GOOD if peer["times_as_fast"] >= 1 else _BAD


def _past(row):
    """The result by its mark, so that more is better, and its colour and text."""
    # A difference may be nothing or less; a hundredth of the mark stands for that.
    value = max(row["median"], row["reach"] / 100)
    past = value / row["reach"] if row["more_is_better"] else row["reach"] / value
    return past, _GOOD if row["reached"] else _BAD, f"{figure(row['median'], row['unit'])} ({reach(row)})"


def _panel(title, bars, y):
    least = min(0.5, *(value for _, value, *_ in bars)) * 0.9
    most = max(2.0, *(value for _, value, *_ in bars)) * 1.1

    def x(value):
        return _LEFT + (_RIGHT - _LEFT - 110) * math.log(value / least) / math.log(most / least)

    parts = [f'<text x="10" y="{y + 14}" font-weight="bold">{html.escape(title)}</text>']
    top = y + 24
    for number, (name, value, colour, said) in enumerate(bars):
        line = top + number * _LINE
        begin, end = sorted((x(1), x(value)))
        text = said or figure(value, "times")
        parts += [
            f'<text x="{_LEFT - 10}" y="{line + 11}" text-anchor="end">{html.escape(name)}</text>',
            f'<rect x="{begin:.1f}" y="{line + 1}" width="{max(end - begin, 1):.1f}" height="{_BAR}" fill="{colour}"/>',
            f'<text x="{max(end, x(1)) + 6:.1f}" y="{line + 11}" fill="#555">{html.escape(text)}</text>',
        ]
    bottom = top + len(bars) * _LINE
    parts.append(f'<line x1="{x(1):.1f}" y1="{top - 4}" x2="{x(1):.1f}" y2="{bottom}" stroke="#222"/>')
    return parts, bottom + 16


def write(results, docs):
    """Write the page and the plot; their paths."""
    docs.mkdir(parents=True, exist_ok=True)
    written = docs / "benchmarks.md", docs / "benchmarks.svg"
    written[0].write_text(page(results), encoding="utf-8")
    written[1].write_text(plot(results), encoding="utf-8")
    return written


if __name__ == "__main__":
    for path in write(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2])):
        print(path)
