# SPDX-License-Identifier: MIT
"""coffer serve: what it answers over HTTP, and of whom."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from coffer import places
from coffer.errors import CofferError
from coffer.profile import proto
from coffer.serve import group, server
from live_program import PROGRAM, Program
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics

COMMAND = places.build_dir() / "bin" / "coffer"
MIB = 1 << 20
DUMP = int(signal.SIGRTMIN) + 8
CONF = f"share:true,profile:true,profile_rate:1,dump_signal:{DUMP},profile_to:"


class Served:
    """The command, on a free port."""

    def __init__(self, *arguments: object) -> None:
        self.process = subprocess.Popen([str(COMMAND), "serve", "--port", "0", *map(str, arguments)],
                                        stderr=subprocess.PIPE, text=True)
        self.said = self.process.stderr.readline()
        match = re.fullmatch(r"coffer: http://(127\.0\.0\.1):(\d+)/metrics, /stats\.json, /debug/pprof/\n", self.said)
        assert match, self.said + self.process.stderr.read()
        self.place = match[1], int(match[2])

    def get(self, path: str, status: int = 200, method: str = "GET", **headers: str) -> bytes:
        connection = http.client.HTTPConnection(*self.place, timeout=30)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            self.kind = answer.getheader("Content-Type")
            content = answer.read()
            assert answer.status == status, content
            return content
        finally:
            connection.close()

    def metrics(self) -> dict[str, dict[tuple[str, ...], float]]:
        """By name: values by pid, and what other label there is."""
        found: dict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
        for family in parser.text_string_to_metric_families(self.get("/metrics").decode()):
            assert family.documentation and family.type in ("gauge", "counter"), family
            for sample in family.samples:
                labels = dict(sample.labels)
                key = labels.pop("pid"), *sorted(value for name, value in labels.items() if name != "program")
                assert labels.pop("program") and key not in found[sample.name]
                found[sample.name][key] = sample.value
        return found

    def end(self, how: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def program(stack: ExitStack, conf: str = "share:true", **more: object) -> Program:
    made = Program(conf, **more)
    stack.callback(made.end)
    return made


def serve(stack: ExitStack, *arguments: object) -> Served:
    made = Served(*arguments)
    stack.callback(lambda: made.process.poll() is None and made.end())
    return made


def refused(*arguments: object) -> str:
    done = subprocess.run([str(COMMAND), "serve", "--port", "0", *map(str, arguments)], capture_output=True, text=True,
                          timeout=30)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    return done.stderr


# --- Metrics. ---


def test_metrics_follow_the_program(stack: ExitStack) -> None:
    watched = program(stack)
    served = serve(stack, watched.pid)
    key = (str(watched.pid),)
    before = served.metrics()
    watched.do("aaaaaaaa")
    time.sleep(0.15)
    after = served.metrics()
    assert 8 * MIB <= after["coffer_live_bytes"][key] - before["coffer_live_bytes"][key] <= 11 * MIB
    assert after["coffer_live_bytes"][key] <= after["coffer_held_bytes"][key] <= after["coffer_bound_bytes"][key]
    assert after["coffer_allocated_blocks_total"][key] - before["coffer_allocated_blocks_total"][key] >= 8 * 1048
    for name in ("held", "live"):
        kinds = {kind: value for (_, kind), value in after[f"coffer_kind_{name}_bytes"].items()}
        assert kinds.keys() == {"classes", "mixed", "large"}
        assert sum(kinds.values()) == pytest.approx(after[f"coffer_{name}_bytes"][key], rel=0.02)
    assert after["coffer_class_live_bytes"][(*key, "1024")] >= 7 * MIB
    assert after["coffer_up"] == {key: 1} and after["coffer_rss_bytes"][key] > 0
    assert after["coffer_purges_total"][key] >= 0 and after["coffer_figures_age_seconds"][key] < 1


def test_forms(stack: ExitStack) -> None:
    served = serve(stack, program(stack).pid)
    text = served.get("/metrics").decode()
    assert served.kind.startswith("text/plain; version=") and text.count("# HELP coffer_live_bytes ") == 1
    modern = served.get("/metrics", Accept="application/openmetrics-text; version=1.0.0").decode()
    assert served.kind.startswith("application/openmetrics-text") and modern.endswith("# EOF\n")
    families = {family.name: family.type for family in openmetrics.text_string_to_metric_families(modern)}
    assert families["coffer_live_bytes"] == "gauge" and families["coffer_purges"] == "counter"
    assert served.get("/metrics", method="HEAD") == b""


def test_the_dashboard_asks_for_what_is_there(stack: ExitStack) -> None:
    watched = program(stack)
    watched.do("aa")
    served = serve(stack, watched.pid)
    board = json.loads(served.get("/dashboard.json"))
    assert board == json.loads(server.DASHBOARD.read_text()) and served.kind == "application/json"
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    variables = [one["definition"] for one in board["templating"]["list"] if one["type"] == "query"]
    asked = set(re.findall(r"coffer_\w+", " ".join(queries + variables)))
    exported = served.metrics()
    assert len(asked) > 12 and asked <= exported.keys(), asked - exported.keys()
    labels = set(re.findall(r"(?:by \(|\{\{)(\w+)[)}]", json.dumps(board["panels"])))
    text = served.get("/metrics").decode()
    assert labels and all(f'{label}="' in text for label in labels), labels
    identities = [panel["id"] for panel in board["panels"]]
    assert len(set(identities)) == len(identities)
    places_taken = [panel["gridPos"] for panel in board["panels"]]
    assert all(place["x"] + place["w"] <= 24 for place in places_taken)
    used = set(re.findall(r"\$(\w+)", " ".join(queries))) - {"__rate_interval"}
    assert used == {one["name"] for one in board["templating"]["list"]} - {"source"}


def test_json(stack: ExitStack) -> None:
    watched = program(stack)
    watched.do("aa")
    served = serve(stack, watched.pid)
    (first,) = json.loads(served.get("/stats.json"))["processes"]
    assert first["pid"] == watched.pid and first["figures"]["live"] >= 2 * MIB and first["classes"]
    time.sleep(0.3)
    watched.do("aaaa")
    (second,) = json.loads(served.get("/stats.json"))["processes"]
    assert second["rates"]["allocated_bytes"] > MIB and served.kind == "application/json"


# --- Of whom. ---


def test_who_ends_disappears(stack: ExitStack) -> None:
    first, second = program(stack), program(stack)
    served = serve(stack, first.pid, second.pid)
    assert served.metrics()["coffer_up"].keys() == {(str(first.pid),), (str(second.pid),)}
    first.end()
    assert served.metrics()["coffer_up"] == {(str(second.pid),): 1}
    second.end()
    status, errors = served.wait()
    assert status == 0 and errors == "coffer: all of these processes have ended\n"


def test_all_that_show_a_page(stack: ExitStack) -> None:
    served = serve(stack)
    later = program(stack)
    assert (str(later.pid),) in served.metrics()["coffer_up"]
    later.end()
    assert (str(later.pid),) not in served.metrics()["coffer_up"]


def test_of_a_name(stack: ExitStack) -> None:
    """Those that show nothing are told of, and come when they do."""
    served = serve(stack, "--name", PROGRAM.name)
    shown, quiet, plain = program(stack), program(stack, ""), program(stack, "", preload=False)
    up = served.metrics()["coffer_up"]  # with those of other tests
    assert [up[str(one.pid),] for one in (shown, quiet, plain)] == [1, 0, 0]
    silent = {one["pid"]: one["reason"] for one in json.loads(served.get("/stats.json"))["silent"]}
    assert "does not run Coffer" in silent[plain.pid] and "runs Coffer but shows no page" in silent[quiet.pid]
    assert f"<td>{plain.pid}<td>" in served.get("/debug/pprof/").decode()
    quiet.end()
    assert (str(quiet.pid),) not in served.metrics()["coffer_up"]


def test_of_a_control_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "CONTROL_GROUPS", tmp_path)
    below = tmp_path / "shop" / "worker"
    below.mkdir(parents=True)
    (tmp_path / "shop" / "cgroup.procs").write_text("12\n0\n")
    (below / "cgroup.procs").write_text("7\n")
    assert group.of_control_group(group.control_group("/shop")) == [7, 12]
    assert group.of_control_group(group.control_group(str(below))) == [7]
    (tmp_path / "memory" / "old").mkdir(parents=True)
    (tmp_path / "memory" / "old" / "cgroup.procs").write_text("5\n")
    assert group.of_control_group(group.control_group("/old")) == [5]
    with pytest.raises(CofferError, match="no such control group"):
        group.control_group("/nothing")


def test_a_signal_has_it_show_its_page(stack: ExitStack) -> None:
    number = int(signal.SIGRTMIN) + 7
    watched = program(stack, f"share_signal:{number}")
    watched.do("aaaa")
    served = serve(stack, "--signal", number, watched.pid)
    key = (str(watched.pid),)
    assert served.metrics()["coffer_live_bytes"][key] >= 4 * MIB
    watched.do("f")
    found = served.metrics()
    assert found["coffer_live_bytes"][key] < 3 * MIB and found["coffer_figures_age_seconds"][key] < 0.5


def test_errors_are_clear(stack: ExitStack) -> None:
    plain, quiet = program(stack, "", preload=False), program(stack, "")
    assert "does not run Coffer" in refused(plain.pid)
    assert "runs Coffer but shows no page: start it with COFFER_CONF=share:true" in refused(quiet.pid)
    assert "there is no process 4194305" in refused(4194305)
    assert "one of them" in refused("--name", "x", "--cgroup", "/")
    assert "no such control group" in refused("--cgroup", "/no/such/group")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "Address already in use" in refused("--port", taken.getsockname()[1])
    assert "coffer: 192.0.2.1, port 0: " in refused("--address", "192.0.2.1")
    assert "an empty one is none; 0.0.0.0 is all" in refused("--address", "")
    assert "an empty one is none" in refused("--name", "")


# --- Heap profiles. ---


def profile_of(content: bytes, folder: Path) -> proto.Profile:
    (folder / "got.pb.gz").write_bytes(content)
    return proto.read(folder / "got.pb.gz")


def test_heap_profiles(stack: ExitStack, tmp_path: Path) -> None:
    watched = program(stack, f"{CONF}{tmp_path}/x")
    watched.do("aaa")
    served = serve(stack, watched.pid)
    found = profile_of(served.get("/debug/pprof/heap"), tmp_path)
    assert found.types == [f"{kind}_{unit}" for kind in ("alloc", "inuse", "peak") for unit in ("objects", "space")]
    assert sum(values[3] for _, values in found.samples) >= 3 * 1048 * 1000
    assert len(found.names) == len(found.locations) and "main" in found.names.values()
    watched.do("f")
    again = profile_of(served.get(f"/debug/pprof/heap?pid={watched.pid}"), tmp_path)
    assert sum(values[3] for _, values in again.samples) < MIB
    assert list(tmp_path.glob("x.*")) == [], "what was asked for is removed"


def test_whose_profile(stack: ExitStack, tmp_path: Path) -> None:
    first, second = program(stack, f"{CONF}{tmp_path}/x"), program(stack)
    served = serve(stack, first.pid, second.pid)
    numbers = ", ".join(map(str, sorted((first.pid, second.pid))))
    assert served.get("/debug/pprof/heap", status=400).decode() == f"?pid=, one of {numbers}\n"
    gzip.decompress(served.get(f"/debug/pprof/heap?pid={first.pid}"))
    assert "knows no signal" in served.get(f"/debug/pprof/heap?pid={second.pid}", status=503).decode()
    for wrong, status in ((os.getpid(), 404), ("9" * 5000, 404), ("x", 400), ("-1", 400), ("%D9%A3", 400)):
        assert numbers in served.get(f"/debug/pprof/heap?pid={wrong}", status=status).decode()
    index = served.get("/debug/pprof/").decode()
    assert all(f'href="/debug/pprof/heap?pid={one.pid}"' in index for one in (first, second))
    assert served.kind.startswith("text/html")


def test_a_process_that_does_not_answer_keeps_others_from_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def of_process(number: int, *_: object) -> None:
        if number == 1:
            goes_on.wait(30)
        raise CofferError(f"{number} was asked")

    asked = group.Group([])
    monkeypatch.setattr(asked, "look", lambda: group.Look([], [group.Silent(one, "x", "") for one in (1, 2)]))
    monkeypatch.setattr(server.taken, "of_process", of_process)
    monkeypatch.setattr(server.Server, "service_actions", lambda self: None)
    with server.Server("127.0.0.1", 0, asked, None) as served, ThreadPoolExecutor(2) as pool:
        pool.submit(served.serve_forever)

        def answer(number: int) -> bytes:
            connection = http.client.HTTPConnection(*served.server_address[:2], timeout=20)
            connection.request("GET", f"/debug/pprof/heap?pid={number}")
            return connection.getresponse().read()

        try:
            first = pool.submit(answer, 1)
            assert answer(2) == b"2 was asked\n" and not first.done()
            goes_on.set()
            assert first.result() == b"1 was asked\n"
        finally:
            goes_on.set()
            served.shutdown()


# --- The server. ---


def test_what_is_not_there(stack: ExitStack) -> None:
    served = serve(stack)
    assert "/metrics" in served.get("/nothing", status=404).decode()
    served.get("/", status=302)
    assert served.get("/metrics", status=501, method="POST") == b"Unsupported method ('POST')\n"
    with socket.create_connection(served.place, timeout=30) as raw:
        raw.sendall(b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400 ")


def test_many_who_wait_share_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def look_anew(self: group.Group) -> group.Look:
        looks.append(time.sleep(0.3))
        return group.Look([], [])

    monkeypatch.setattr(group.Group, "look_anew", look_anew)
    asked = group.Group([])
    with ThreadPoolExecutor(8) as pool:
        assert len(list(pool.map(lambda _: asked.look(), range(8)))) == 8
    assert (seen := len(looks)) <= 2
    asked.look()
    assert len(looks) == seen + 1, "who asks later has a new one"


def test_no_other_name_leads_here(stack: ExitStack) -> None:
    """A page of another site, whose name its owner points at 127.0.0.1, reads nothing."""
    served = serve(stack)
    for host in ("shop.example", "shop.example:80", "[", ""):
        served.get("/metrics", status=403, Host=host)
    for host in ("localhost", "localhost.", "localhost.:80", "127.0.0.1:1", "[::1]:9779"):
        served.get("/metrics", Host=host)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(stack: ExitStack, how: signal.Signals) -> None:
    served = serve(stack, program(stack).pid)
    served.metrics()
    status, errors = served.end(how)
    assert status == (-how if how is signal.SIGTERM else 0) and errors == ""
