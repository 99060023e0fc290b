"""Every asyncio task in the source is supervised: awaited where it is created, watched, or listed here."""

import ast
from collections import Counter
from pathlib import Path

import pytest

import shoal

SOURCE = Path(shoal.__file__).parent
MAKERS = {"create_task", "ensure_future", "start_in"}

# Tasks that something else supervises, by file and function.
SUPERVISED = {
    "worker/background.py": {"start": "its callback ends the worker"},
    "worker/process/supervisor.py": {
        "_background": "the supervisor waits for all of them, and ends the worker when one fails",
        "_fork": "the supervisor waits for it, and ends the worker when it fails",
    },
    "worker/process/heartbeat.py": {"send": "awaited by all whose heartbeats it sends; it returns its error"},
    "fleet/lock.py": {"__aenter__": "its callback tells the holders; the error is raised at the end"},
    "fleet/run/results.py": {"__aenter__": "its callback says so; `finish` writes again or raises"},
    "fleet/run/background.py": {
        "start": "its work logs every error; `check` raises for those who wait for the run"
    },
    "fleet/notify/notifier.py": {
        "_repeat": "it is restarted, and says every error",
        "send_due": "it stores every error of a channel, and leaves those of the queue to the next interval",
    },
    "fleet/schedule_coordinator.py": {
        "serve": "it is restarted, and says every error",
        "_go_on": "says every error, and the next tick begins it again",
        "_host": "it is restarted, and says every error",
    },
    "scrapy/bridge.py": {
        "on_open": "cancelled by `on_close`; what they write is tried again at the next interval",
        "close_spider": "closes the spider, whose end the engine waits for",
        "_on_response": "its work logs every error of the queue",
        "open": "awaited by `shut`, and by `open` if it ends at once",
    },
    "scrapy/inside.py": {
        "on_open": "awaited when the engine closes; its errors close the spider",
    },
    "scrapy/outside.py": {"add": "awaited by `flush`, which the engine calls before it closes"},
    "fleet/telemetry/setup.py": {"_respond": "awaited by the requests that it responds to"},
    "fleet/scale/local.py": {"_start_worker": "its callback reports it, and another worker is started later"},
    "fetch/browser/proxy/server.py": {
        "_accept": "one connection of the browser, which is closed by its callback"
    },
    "fetch/browser/browser.py": {"_prepare_next": "awaited by the page that takes the tab"},
    "fetch/browser/intercept.py": dict.fromkeys(
        ("decide", "_on_response"), "part of one navigation, which has a timeout"
    ),
    "fetch/browser/fetcher.py": dict.fromkeys(
        ("fetch", "_navigate", "_open", "_close_late_tab", "_start"),
        "closes a tab or a browser; the navigation it was for is over",
    ),
    "core/tasks.py": {"start_in": "its callers are listed here"},
}


def enclosing(tree):
    """Yield every call that creates a task, with its function and its enclosing nodes, nearest first."""

    def visit(node, around):
        if isinstance(node, ast.Call) and _called(node) in MAKERS:
            functions = [one for one in around if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
            yield node, functions[0] if functions else None, around
        for child in ast.iter_child_nodes(node):
            yield from visit(child, [node, *around])

    yield from visit(tree, [])


def _called(call):
    return getattr(call.func, "attr", getattr(call.func, "id", None))


def is_safe(call, function, around):
    """Return whether a task is watched, in a group, or awaited in the function that creates it."""
    if any(isinstance(one, ast.Call) and _called(one) == "watched" for one in around):
        return True
    if isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", None) == "group":
        return True
    kept = next((one for one in around if isinstance(one, ast.Assign | ast.AnnAssign)), None)
    targets = kept.targets if isinstance(kept, ast.Assign) else [kept.target] if kept else []
    names = {one.id for one in targets if isinstance(one, ast.Name)}
    awaited = (inner for one in ast.walk(function) if isinstance(one, ast.Await) for inner in ast.walk(one))
    return any(isinstance(one, ast.Name) and one.id in names for one in awaited)


def unsupervised(code):
    """Return the functions that create an unsupervised task."""
    if not any(maker in code for maker in MAKERS):
        return []  # most files, and a tree of each would take seconds
    return [
        function.name if function else "<module>"
        for call, function, around in enclosing(ast.parse(code))
        if function is None or not is_safe(call, function, around)
    ]


def test_every_task_is_supervised():
    found = {
        str(file.relative_to(SOURCE)): names
        for file in sorted(SOURCE.rglob("*.py"))
        if (names := Counter(unsupervised(file.read_text())))
    }
    listed = {file: Counter(dict.fromkeys(reasons, 1)) for file, reasons in SUPERVISED.items()}
    assert found == listed, "wrap it in watched(…), await it, or give the reason in SUPERVISED"


@pytest.mark.parametrize(
    "body",
    [
        "asyncio.create_task(work())",
        "self.task = asyncio.create_task(work())",
        "task = asyncio.create_task(work())\n    tasks.add(task)",
        "task = loop.create_task(work())\n    task.add_done_callback(tasks.discard)",
        "future = asyncio.ensure_future(work())",
        "start_in(self.tasks, work())",
    ],
)
def test_an_unsupervised_task_is_found(body):
    assert unsupervised(f"async def begin(self):\n    {body}\n") == ["begin"]
